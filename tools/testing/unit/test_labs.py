#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of the configurations for mmtests, LKP and fio in tools/testing/labs."""
import configparser
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import unittest

try:
    import yaml
except ImportError:
    yaml = None

TOP = pathlib.Path(__file__).resolve().parents[3]
LABS = TOP / 'tools/testing/labs'
RST = TOP / 'Documentation/testing/labs.rst'
FILES = sorted(p for p in LABS.rglob('*') if p.is_file())
MMTESTS = sorted((LABS / 'mmtests').iterdir())
LKP = sorted((LABS / 'lkp').iterdir())
FIO = LABS / 'fio/overwrite-fsync.fio'

# What mmtests reads: github.com/gormanm/mmtests at 638401e07e70; reaim at 6c93ff57a992,
# the parent of the commit that removed it.
COMMON = {
    # run-mmtests.sh
    'MMTESTS', 'MMTEST_ITERATIONS', 'RUN_MONITOR', 'TESTDISK_PARTITION',
    # shellpacks/common.sh
    'TESTDISK_FILESYSTEM', 'TESTDISK_MKFS_PARAM', 'TESTDISK_MOUNT_ARGS', 'NUM_LOGICAL_CPUS',
    # shellpacks/monitors.sh
    'MONITORS_GZIP', 'MONITORS_WITH_LATENCY',
    # monitors/watch-*.sh
    'MONITOR_UPDATE_FREQUENCY',
}
DRIVERS = {
    # drivers/driver-fio.sh, shellpack_src/src/fio/fio-bench
    'fio': {'FIO_CMD_OPTIONS', 'FIO_TARGET_FILE', 'FIO_TEST_TYPE'},
    # drivers/driver-fsmark.sh, shellpack_src/src/fsmark/fsmark-bench
    'fsmark': {'FSMARK_MIN_THREADS', 'FSMARK_MAX_THREADS', 'FSMARK_FILESIZE',
               'FSMARK_NR_FILES_PER_ITERATION', 'FSMARK_NR_TOP_DIRECTORIES',
               'FSMARK_NR_SUB_DIRECTORIES', 'FSMARK_SYNCMODE', 'FSMARK_ITERATIONS',
               'FSMARK_KEEP_FILES'},
    # shellpack_src/src/dbench/dbench-bench
    'dbench': {'DBENCH_OSYNC', 'DBENCH_SYNC_DIRECTORY', 'DBENCH_FSYNC', 'DBENCH_MIN_CLIENTS',
               'DBENCH_MAX_CLIENTS', 'DBENCH_DURATION_BASE', 'MMTESTS_THREAD_CUTOFF'},
    # drivers/driver-reaim.sh; NUMCPUS: shellpacks/common.sh
    'reaim': {'REAIM_FILESIZE', 'REAIM_POOLSIZE', 'REAIM_STARTUSERS', 'REAIM_ENDUSERS',
              'REAIM_INCREMENT', 'REAIM_WORKFILES', 'REAIM_EXCLUDE', 'NUMCPUS'},
}
# What the same files have no default for. An empty one shifts the driver's arguments.
REQUIRED = {
    'fio': {'FIO_CMD_OPTIONS'},
    'fsmark': DRIVERS['fsmark'] - {'FSMARK_NR_TOP_DIRECTORIES', 'FSMARK_SYNCMODE',
                                   'FSMARK_KEEP_FILES'},
    'dbench': {'DBENCH_MAX_CLIENTS', 'DBENCH_DURATION_BASE'},
    'reaim': DRIVERS['reaim'] - {'REAIM_EXCLUDE', 'NUMCPUS'},
}

# What LKP reads: github.com/intel/lkp-tests at bbbc29c495d9, "# - NAME" in programs/*/run.
JOB = {'suite', 'testcase', 'category', 'disk', 'fs', 'media', 'runtime', 'iterations',
       'nr_task', 'nr_threads'}
PROGRAMS = {
    'reaim': {'test', 'nr_task', 'nr_job', 'iterations', 'runtime'},
    'fsmark': {'nr_threads', 'test_size', 'filesize', 'nr_directories',
               'nr_files_per_directory', 'sync_method', 'iterations'},
    'fxmark': {'media', 'fstype', 'directio', 'test', 'duration', 'thread_nr', 'blksize',
               'blkcount'},
}
SYNC_METHODS = {'NoSync', 'fsyncBeforeClose', 'syncFsync', 'PostReverseFsync',
                'syncPostReverseFsync', 'PostFsync', 'syncPostFsync'}
# BENCH_TYPES in bin/run-fxmark.py of github.com/sslab-gatech/fxmark at 3f29552ce7ba
FXMARK = {'DWAL', 'DWOL', 'DWOM', 'DWSL', 'MWRL', 'MWRM', 'MWCL', 'MWCM', 'MWUM', 'MWUL',
          'DWTL', 'dbench_client'}


def code(path):
    """The file without its comments."""
    return '\n'.join(line for line in path.read_text().split('\n')
                     if not line.lstrip().startswith('#'))


def source(path, **env):
    """What a shell on 48 CPUs exports when it has read the file, as mmtests does."""
    run = subprocess.run(
        ['bash', '-c', '. "$1" && env -0', 'bash', path], capture_output=True, text=True,
        env={'PATH': os.environ['PATH'], 'NUM_LOGICAL_CPUS': '48', 'NUMCPUS': '48', **env})
    return run, dict(item.split('=', 1) for item in run.stdout.split('\0') if item)


def read_job(path):
    """A job file in the small part of YAML that the shipped ones use; anything else raises."""
    job = where = {}
    for number, line in enumerate(code(path).split('\n'), 1):
        if not line:
            continue
        match = re.fullmatch(r'(  )?([a-z_]+):(?: ([\w%]+|\[\w+(?:, \w+)*\]))?', line)
        if not match or match[2] in (where if match[1] else job):
            raise ValueError(f'{path.name}: line {number} without comments: {line!r}')
        value = match[3]
        if value and value[0] == '[':
            value = value[1:-1].split(', ')
        if match[1]:
            where[match[2]] = value
        elif value is None:
            where = job[match[2]] = {}
        else:
            job[match[2]] = value
    return job


def as_list(value):
    return value if isinstance(value, list) else [value]


class EveryFile(unittest.TestCase):
    def test_header(self):
        for path in FILES:
            with self.subTest(path.name):
                head = path.read_text().split('\n\n')[0]
                self.assertTrue(head.startswith('# SPDX-License-Identifier: GPL-2.0\n#\n'))
                self.assertRegex(head, r'\n# Report: ')
                self.assertRegex(head, r'\n# Look at: ')

    def test_known_tool(self):
        self.assertEqual(set(FILES), {*MMTESTS, *LKP, FIO})


class Mmtests(unittest.TestCase):
    def test_syntax(self):
        for path in MMTESTS:
            with self.subTest(path.name):
                run = subprocess.run(['bash', '-n', path], capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stderr), (0, ''))

    def test_variables(self):
        """Every variable is one that mmtests reads, or was made in the file before."""
        for path in MMTESTS:
            with self.subTest(path.name):
                text = code(path)
                driver = re.search(r'^export MMTESTS=(\w+)$', text, re.M)
                known = COMMON | (DRIVERS[driver[1]] if driver else set()) | {'BASH_SOURCE'}
                exported = set(re.findall(r'^export (\w+)=', text, re.M))
                local = set(re.findall(r'^(\w+)=', text, re.M))
                used = set(re.findall(r'\$\{?(\w+)', text))
                for arithmetic in re.findall(r'\$\(\((.*?)\)\)', text):
                    used |= set(re.findall(r'[A-Z_]+', arithmetic))
                self.assertLessEqual(exported, known)
                self.assertLessEqual(used, known | local)
                self.assertLessEqual(local, used)

    def test_required(self):
        """With 48 CPUs, everything that the driver has no default for has a value."""
        loads = [path for path in MMTESTS if not path.name.startswith('fs-')]
        for path in loads:
            with self.subTest(path.name):
                run, values = source(path)
                self.assertEqual((run.returncode, run.stderr), (0, ''))
                self.assertEqual([name for name in sorted(REQUIRED[values['MMTESTS']])
                                  if not values.get(name)], [])
        self.assertEqual({source(path)[1]['MMTESTS'] for path in loads}, set(DRIVERS))

    def test_reaim_clients(self):
        """The numbers of clients are those of the report's table."""
        for name in ('reaim-disk', 'reaim-disk-large'):
            _, values = source(LABS / 'mmtests' / name)
            first, last, step = (int(values['REAIM_' + key])
                                 for key in ('STARTUSERS', 'ENDUSERS', 'INCREMENT'))
            self.assertEqual(list(range(first, last + 1, step)),
                             [1, 25, 49, 73, 97, 121, 145, 169, 193], name)

    def test_fio_job(self):
        _, values = source(LABS / 'mmtests/fio-fsync')
        self.assertEqual(pathlib.Path(values['FIO_CMD_OPTIONS']), FIO)

    def test_sync_mode(self):
        path = LABS / 'mmtests/fsmark-fsync'
        self.assertEqual(source(path)[1]['FSMARK_SYNCMODE'], '1')
        self.assertEqual(source(path, FSMARK_SYNCMODE='5')[1]['FSMARK_SYNCMODE'], '5')

    def test_partition(self):
        """No partition: mmtests must stop, or it would run on the root filesystem."""
        for fs in ('ext4', 'xfs'):
            with self.subTest(fs):
                path = LABS / f'mmtests/fs-{fs}'
                run, values = source(path)
                self.assertNotEqual(run.returncode, 0)
                self.assertEqual(values, {})
                self.assertIn('TESTDISK_PARTITION: set it', run.stderr)
                _, values = source(path, TESTDISK_PARTITION='/dev/none')
                self.assertEqual(values['TESTDISK_PARTITION'], '/dev/none')
                self.assertEqual(values['TESTDISK_FILESYSTEM'], fs)


class Lkp(unittest.TestCase):
    def test_parameters(self):
        for path in LKP:
            with self.subTest(path.name):
                job = read_job(path)
                program = job['testcase']
                options = job.pop(program)
                self.assertEqual(job['suite'], program)
                self.assertEqual(job['category'], 'benchmark')
                self.assertLessEqual(set(job), JOB)
                given = set(options) | set(job) & {'iterations', 'media', 'nr_task',
                                                   'nr_threads', 'runtime'}
                self.assertLessEqual(given, PROGRAMS[program])
                systems = options.get('fstype') if program == 'fxmark' else job.get('fs')
                self.assertEqual(systems, ['ext4', 'xfs'])
                if program == 'fxmark':
                    self.assertLessEqual(set(as_list(options['test'])), FXMARK)
                    self.assertIn(options['directio'], ('directio', 'bufferedio'))
                if program == 'fsmark':
                    self.assertLessEqual(set(options['sync_method']), SYNC_METHODS)

    @unittest.skipUnless(yaml, 'python3-yaml is not installed; only read_job() was used')
    def test_yaml(self):
        """A YAML parser takes the files for what read_job() does."""
        def strings(value):
            if isinstance(value, dict):
                return {key: strings(item) for key, item in value.items()}
            return [str(v) for v in value] if isinstance(value, list) else str(value)
        for path in LKP:
            with self.subTest(path.name):
                self.assertEqual(strings(yaml.safe_load(path.read_text())), read_job(path))

    def test_fxmark_workloads(self):
        tests = [test for path in LKP if path.name.startswith('fxmark')
                 for test in as_list(read_job(path)['fxmark']['test'])]
        self.assertEqual(sorted(tests), sorted(['MWCM', 'MWCL', 'MWUM', 'MWUL', 'MWRM', 'MWRL',
                                                'DWSL', 'DWAL', 'dbench_client']))


class Fio(unittest.TestCase):
    def test_groups(self):
        """One group for each combination, one after the other."""
        job = configparser.ConfigParser(allow_no_value=True, delimiters='=')
        job.read_string(FIO.read_text())
        want = {}
        for sync, file, threads in itertools.product(('fsync', 'fdatasync'), ('shared', 'own'),
                                                     ('1', '4', '16', '64')):
            want[f'{sync}-{file}-{threads}'] = {'stonewall': None, 'numjobs': threads, sync: '1',
                                                **({'filename': 'shared'} if file == 'shared'
                                                   else {})}
        groups = {name: dict(job[name]) for name in job.sections() if name != 'global'}
        self.assertEqual(groups, want)
        self.assertEqual({key: job['global'][key] for key in ('bs', 'overwrite', 'direct')},
                         {'bs': '16k', 'overwrite': '1', 'direct': '0'})

    @unittest.skipUnless(shutil.which('fio'), 'fio is not installed')
    def test_parse(self):
        run = subprocess.run(['fio', '--parse-only', FIO], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ''))


class Document(unittest.TestCase):
    def test_files(self):
        """The table names every file and no other; so do the commands."""
        text = RST.read_text()
        names = {str(path.relative_to(LABS)) for path in FILES}
        self.assertEqual(set(re.findall(r'^``((?:mmtests|lkp|fio)/\S+?)`` ', text, re.M)), names)
        for reference in re.findall(r'\$LABS/([\w./$*-]+)', text):
            pattern = re.sub(r'\$\w+', '*', reference)
            self.assertTrue(list(LABS.glob(pattern)), reference)

    def test_paths(self):
        """Files of this repository that it mentions exist."""
        text = RST.read_text()
        paths = re.findall(r'(?:``|\$STACK/)((?:Documentation|tools|patches)/[\w./-]+)', text)
        self.assertIn('tools/testing/labs', paths)
        for path in paths:
            self.assertTrue((TOP / path).exists(), path)

    def test_commits(self):
        """It was written from the same commits as the lists above."""
        text = RST.read_text()
        for commit in re.findall(r'\b[0-9a-f]{12}\b', pathlib.Path(__file__).read_text()):
            self.assertIn(commit, text)


if __name__ == '__main__':
    unittest.main()
