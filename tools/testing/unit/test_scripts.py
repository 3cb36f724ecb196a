#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of scripts/: base, tree, refresh, apply, mail, apt-source on a tiny kernel tree."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / 'scripts'
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import program  # noqa: E402

JOURNAL = ''.join(f'int line{i};\n' for i in range(40))
GET_MAINTAINER = '''#!/bin/sh
echo "Jan Maintainer <jan@example.org> (maintainer:JOURNAL)"
echo "Jörg Reviewer <joerg@example.org> (reviewer:JOURNAL)"
echo "linux-ext4@vger.kernel.org (open list:JOURNAL)"
'''


class Workbench(unittest.TestCase):
    """A copy of scripts/ beside a tiny kernel, all in a scratch directory."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='test_scripts.'))
        self.addCleanup(shutil.rmtree, self.dir)
        self.top = self.dir / 'top'
        self.linux = self.top / 'build/linux'
        shutil.copytree(SCRIPTS, self.top / 'scripts')
        (self.top / 'patches').mkdir()
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith('GIT_') and k not in
                    ('O', 'KSRC', 'FORCE', 'BRANCH', 'V', 'START_TIME', 'SERIES', 'REROLL')}
        self.env.update(HOME=str(self.dir), GIT_CONFIG_NOSYSTEM='1')
        (self.dir / '.gitconfig').write_text('[user]\nname = A U Thor\nemail = a@example.org\n')
        self.kernel = self.make_kernel()
        self.write_manifest()

    def make_kernel(self, sublevel=4):
        """A git tree that passes for Linux 7.3.<sublevel>."""
        kernel = self.dir / 'kernel'
        files = {'Makefile': f'VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = {sublevel}\n'
                             'EXTRAVERSION =\nNAME = Test\n' + '# as long as the real one\n' * 9000,
                 'MAINTAINERS': 'none\n', 'fs/jbd2/journal.c': JOURNAL,
                 'fs/ext4/super.c': JOURNAL, 'scripts/get_maintainer.pl': GET_MAINTAINER}
        for name, text in files.items():
            (kernel / name).parent.mkdir(parents=True, exist_ok=True)
            (kernel / name).write_text(text)
        (kernel / 'scripts/get_maintainer.pl').chmod(0o755)
        self.git(kernel, 'init', '-q', '-b', 'master')
        self.git(kernel, 'add', '-A')
        self.git(kernel, 'commit', '-q', '-m', 'Linux 7.3.4')
        return kernel

    def write_manifest(self):
        lines = ['# test']
        for name in ('fs/jbd2/journal.c', 'fs/ext4/super.c'):
            digest = hashlib.sha256((self.kernel / name).read_bytes()).hexdigest()
            lines.append(f'{digest}  {name}')
        (self.top / 'scripts/base.sha256').write_text('\n'.join(lines) + '\n')

    def git(self, tree, *args):
        return subprocess.run(['git', '-C', tree, *args], env=self.env, check=True,
                              capture_output=True, text=True).stdout

    def run_script(self, name, *args, fails=False, **env):
        result = subprocess.run([self.top / 'scripts' / name, *args], check=False,
                                capture_output=True, text=True, env={**self.env, **env})
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode != 0, fails, output)
        if fails:
            self.assertIn('error: ', result.stderr)
            self.assertIn('  next: ', result.stderr)
        return output

    def commit(self, path, text, subject, tree=None):
        tree = tree or self.linux
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        self.git(tree, 'add', '-A')
        self.git(tree, 'commit', '-q', '-m', subject + '\n\nBecause.\n\nSigned-off-by: A <a@b.c>')

    def snapshot(self, *paths):
        found = {}
        for path in paths:
            for p in sorted((self.top / path).rglob('*')):
                if p.is_file():
                    found[str(p.relative_to(self.top))] = p.read_bytes()
        return found

    def state(self, tree):
        """All that a script must leave alone in a git tree."""
        return (self.git(tree, 'for-each-ref'), self.git(tree, 'symbolic-ref', 'HEAD'),
                self.git(tree, 'status', '--porcelain'), self.git(tree, 'diff', 'HEAD'))

    def make_stack(self):
        """base, tree, three commits in two series, refresh."""
        self.run_script('base', KSRC=str(self.kernel))
        self.run_script('tree')
        self.commit('fs/jbd2/journal.c', JOURNAL.replace('line3;', 'three;'), 'jbd2: rename line3')
        self.commit('fs/jbd2/gate.c', 'int gate;\n', 'jbd2: add a gate, in "quotes" & more...')
        self.run_script('refresh', SERIES='jbd2')
        self.commit('fs/ext4/super.c', JOURNAL.replace('line9;', 'nine;'), 'ext4: Jörg\'s line9')
        self.run_script('refresh', SERIES='ext4')


class TestRoundTrip(Workbench):
    def test_round_trip(self):
        self.make_stack()
        series = (self.top / 'patches/series').read_text().splitlines()
        self.assertEqual([s[:9] for s in series], ['jbd2/0001', 'jbd2/0002', 'ext4/0001'])
        self.assertEqual((self.top / 'fs/jbd2/gate.c').read_text(), 'int gate;\n')
        views = self.snapshot('patches', 'fs')

        self.run_script('tree')
        first = self.git(self.linux, 'rev-parse', 'stack')
        # from nothing but patches/, elsewhere, by another user: the same ids and bytes
        (self.dir / '.gitconfig').write_text('[user]\nname = B\nemail = b@b\n[diff]\nnoprefix = 1\n'
                                             'context = 7\n[format]\nsignature = me\n')
        shutil.rmtree(self.top / 'build')
        self.run_script('base', KSRC=str(self.kernel))
        self.run_script('tree')
        self.assertEqual(self.git(self.linux, 'rev-parse', 'stack'), first)
        self.run_script('refresh')
        self.assertEqual(self.snapshot('patches', 'fs'), views)
        self.assertIn('up to date', self.run_script('tree'))

    def test_plain_git_am_and_quilt(self):
        self.make_stack()
        series = (self.top / 'patches/series').read_text().splitlines()
        self.git(self.kernel, 'am', *(self.top / 'patches' / s for s in series))
        self.assertEqual(self.git(self.kernel, 'rev-parse', 'HEAD^{tree}'),
                         self.git(self.linux, 'rev-parse', 'stack^{tree}'))
        if shutil.which('quilt'):
            self.git(self.kernel, 'checkout', '-q', 'HEAD~3')
            subprocess.run(['quilt', 'push', '-aq'], cwd=self.kernel, check=True,
                           capture_output=True,
                           env={**self.env, 'QUILT_PATCHES': str(self.top / 'patches')})
            self.git(self.kernel, 'add', 'fs')
            self.assertEqual(self.git(self.kernel, 'diff', '--cached', 'master', '--', 'fs'), '')

    def test_stale_files_are_removed(self):
        self.make_stack()
        letter = self.top / 'patches/jbd2/0000-cover-letter.txt'
        letter.write_text('jbd2: gates\n')
        self.git(self.linux, 'reset', '-q', '--hard', 'stack~2')
        self.run_script('refresh')
        self.assertEqual(sorted(self.snapshot('patches', 'fs')),
                         ['patches/jbd2/0000-cover-letter.txt',
                          'patches/jbd2/0001-jbd2-rename-line3.patch',
                          'patches/series'])

    def test_patches_taken_back_after_refresh(self):
        self.make_stack()
        self.run_script('tree')
        before, views = self.git(self.linux, 'rev-parse', 'stack'), self.snapshot('patches')
        self.commit('fs/ext4/super.c', JOURNAL, 'ext4: revert line9')
        self.run_script('refresh')
        for name, data in views.items():
            (self.top / name).write_bytes(data)
        self.run_script('tree')
        self.assertEqual(self.git(self.linux, 'rev-parse', 'stack'), before)

    def test_adding_a_patch_leaves_the_others(self):
        self.make_stack()
        before = self.snapshot('patches')
        self.commit('fs/ext4/super.c', JOURNAL, 'ext4: revert line9')
        self.run_script('refresh')
        after = self.snapshot('patches')
        changed = [n for n in before if before[n] != after.get(n)]
        self.assertEqual(changed, ['patches/series'])


class TestCheck(Workbench):
    def setUp(self):
        super().setUp()
        self.make_stack()
        for name in ('jbd2', 'ext4'):
            (self.top / f'patches/{name}/0000-cover-letter.txt').write_text('x\n')
            (self.top / f'patches/{name}/recipients').write_text('To: a@b.c\n')

    def check_fails(self, expect):
        before = self.snapshot('patches', 'fs')
        self.assertIn(expect, self.run_script('refresh', '--check', fails=True))
        self.assertEqual(self.snapshot('patches', 'fs'), before)

    def test_agree(self):
        self.assertIn('3 patches, 0 files differ', self.run_script('refresh', '--check'))

    def test_changed_patch(self):
        patch = next((self.top / 'patches/ext4').glob('0001*'))
        patch.write_text(patch.read_text().replace('Because.', 'Why not.'))
        self.check_fails('+Because.')

    def test_changed_added_file(self):
        (self.top / 'fs/jbd2/gate.c').write_text('int gate = 1;\n')
        self.check_fails('fs/jbd2/gate.c: differs')

    def test_extra_file(self):
        (self.top / 'fs/jbd2/extra.c').write_text('int extra;\n')
        self.check_fails('fs/jbd2/extra.c: not on branch stack')

    def test_new_commit(self):
        self.commit('fs/ext4/super.c', JOURNAL, 'ext4: one more')
        self.check_fails('only on branch stack')

    def test_missing_cover_letter(self):
        (self.top / 'patches/jbd2/0000-cover-letter.txt').unlink()
        self.check_fails('patches/jbd2/0000-cover-letter.txt is missing')

    def test_modified_file_must_be_in_manifest(self):
        self.commit('MAINTAINERS', 'me\n', 'ext4: maintain')
        self.run_script('refresh')
        self.check_fails('scripts/base.sha256 does not list MAINTAINERS')

    def test_hunk_header_text_is_ignored(self):
        patch = next((self.top / 'patches/jbd2').glob('0001*'))
        text = patch.read_text()
        self.assertRegex(text, r'(?m)^@@ .* @@')
        patch.write_text(text.replace(' @@\n', ' @@ int other\n').replace(' @@ int', ' @@ long'))
        self.assertNotEqual(patch.read_text(), text)
        self.run_script('refresh', '--check')


class TestRefusals(Workbench):
    def test_scattered_series(self):
        self.make_stack()
        before = self.snapshot('patches', 'fs')
        self.commit('fs/jbd2/journal.c', JOURNAL, 'jbd2: after ext4')
        self.assertIn('not together', self.run_script('refresh', fails=True, SERIES='jbd2'))
        self.assertEqual(self.snapshot('patches', 'fs'), before)

    def test_series_of_a_new_subject(self):
        self.run_script('base', KSRC=str(self.kernel))
        self.run_script('tree')
        self.commit('fs/jbd2/gate.c', 'int gate;\n', 'jbd2: add a gate')
        self.assertIn("'jbd2: add a gate' is of no series yet",
                      self.run_script('refresh', fails=True))
        self.run_script('refresh', SERIES='gate')
        self.commit('fs/jbd2/gate.c', 'int gates;\n', 'jbd2: add more gates')
        self.run_script('refresh')
        self.commit('fs/ext4/super.c', JOURNAL + 'int x;\n', 'ext4: use a gate')
        self.run_script('refresh', SERIES='user')
        series = (self.top / 'patches/series').read_text().splitlines()
        self.assertEqual([line[:9] for line in series], ['gate/0001', 'gate/0002', 'user/0001'])
        # another subject for one between two of the same series, and for one at an end
        message = 'jbd2: add {} gates\n\nBecause.\n'
        self.git(self.linux, 'reset', '-q', '--hard', 'stack~1')
        self.git(self.linux, 'commit', '-q', '--amend', '-m', message.format('many'))
        self.commit('fs/ext4/super.c', JOURNAL + 'int x;\n', 'ext4: use a gate')
        self.assertIn("'jbd2: add many gates' is between series gate and user",
                      self.run_script('refresh', fails=True))
        self.run_script('refresh', SERIES='gate')
        self.assertEqual((self.top / 'patches/series').read_text().splitlines()[1],
                         'gate/0002-jbd2-add-many-gates.patch')

    def test_tree_keeps_local_work(self):
        self.make_stack()
        self.run_script('tree')
        self.commit('fs/ext4/super.c', JOURNAL, 'ext4: local work')
        mine = self.git(self.linux, 'rev-parse', 'stack')
        before = self.state(self.linux)
        self.assertIn('make refresh', self.run_script('tree', fails=True))
        self.assertEqual(self.state(self.linux), before)
        self.run_script('tree', FORCE='1')
        self.assertNotEqual(self.git(self.linux, 'rev-parse', 'stack'), mine)
        self.assertEqual(self.git(self.linux, 'rev-parse', 'refs/stack/saved'), mine)

    def test_tree_takes_new_patches(self):
        self.make_stack()
        self.run_script('tree')
        series = self.top / 'patches/series'
        series.write_text(''.join(series.read_text().splitlines(keepends=True)[:2]) + '# end\n\n')
        self.run_script('tree')
        self.assertEqual(self.git(self.linux, 'rev-list', '--count', 'base..stack'), '2\n')
        self.assertEqual((self.linux / 'fs/ext4/super.c').read_text(), JOURNAL)

    def test_tree_failure_changes_nothing(self):
        self.make_stack()
        self.run_script('tree')
        before = self.state(self.linux)
        series = self.top / 'patches/series'
        lines = series.read_text().splitlines()
        # the same patch twice
        series.write_text('\n'.join([lines[0], lines[2], lines[2]]) + '\n')
        self.assertIn('patch 3 of 3 does not apply: patches/ext4/0001',
                      self.run_script('tree', fails=True))
        series.write_text('\n'.join(lines + ['ext4/0009-gone.patch']) + '\n')
        self.assertIn('ext4/0009-gone.patch, which is missing', self.run_script('tree', fails=True))
        self.assertEqual(self.state(self.linux), before)
        self.assertFalse((self.top / 'build/am.tmp').exists())


class TestSeries(Workbench):
    """Which patches a series needs."""

    def setUp(self):
        super().setUp()
        self.make_stack()
        self.ext4 = self.top / 'patches/ext4/0000-cover-letter.txt'

    def patches(self, *names):
        return [line[:9] for line in self.run_script('series', '--patches', *names).splitlines()]

    def test_list(self):
        self.ext4.write_text('ext4: x\n\ntext\n\ndepends: jbd2\n')
        self.assertEqual(self.run_script('series').split(), ['jbd2', '2', '-', 'ext4', '1', 'jbd2'])

    def test_closure(self):
        self.assertEqual(self.patches(), ['jbd2/0001', 'jbd2/0002', 'ext4/0001'])
        self.assertEqual(self.patches('ext4'), ['ext4/0001'])
        self.ext4.write_text('ext4: x\n\ndepends: jbd2\n')
        self.assertEqual(self.patches('ext4'), ['jbd2/0001', 'jbd2/0002', 'ext4/0001'])
        self.assertEqual(self.patches('jbd2'), ['jbd2/0001', 'jbd2/0002'])

    def test_refusals(self):
        self.assertIn("there is no series 'xfs'", self.run_script('series', 'xfs', fails=True))
        self.ext4.write_text('ext4: x\n\ndepends: xfs\n')
        self.assertIn("there is no series 'xfs' to depend on",
                      self.run_script('series', 'ext4', fails=True))
        (self.top / 'patches/jbd2/0000-cover-letter.txt').write_text('j\n\ndepends: ext4\n')
        self.assertIn('is not before jbd2', self.run_script('series', 'jbd2', fails=True))

    def test_commit_has_nothing_else(self):
        first = self.run_script('closure', 'ext4').splitlines()[0]
        self.assertEqual(self.git(self.linux, 'diff', '--name-only', 'base', first),
                         'fs/ext4/super.c\n')
        self.assertEqual(self.run_script('closure', 'ext4').splitlines(), [first])
        self.ext4.write_text('ext4: x\n\ndepends: jbd2\n')
        both = self.run_script('closure', 'ext4').splitlines()[0]
        self.assertEqual(self.git(self.linux, 'rev-parse', both + '^{tree}'),
                         self.git(self.linux, 'rev-parse', 'stack^{tree}'))
        self.assertEqual(list((self.top / 'build').glob('closure.*')), [])

    def test_missing_dependency(self):
        self.commit('fs/jbd2/gate.c', 'int gates;\n', 'ext4: more gates')
        self.run_script('refresh')
        output = self.run_script('closure', 'ext4', fails=True)
        self.assertIn('patch 2 of 2 does not apply: patches/ext4/0002', output)
        # What git am says when it stops is no patch.
        self.assertNotIn('patch 3 of 2', output)
        self.assertIn("line 'depends:'", output)


class TestApply(Workbench):
    def setUp(self):
        super().setUp()
        self.make_stack()

    def refused(self, expect, **env):
        before = self.state(self.kernel)
        self.assertIn(expect, self.run_script('apply', fails=True,
                                              **{'KSRC': str(self.kernel), **env}))
        self.assertEqual(self.state(self.kernel), before)

    def test_applies(self):
        self.run_script('apply', KSRC=str(self.kernel))
        self.assertEqual(self.git(self.kernel, 'symbolic-ref', 'HEAD'),
                         'refs/heads/journal-stack\n')
        self.assertEqual(self.git(self.kernel, 'rev-parse', 'HEAD^{tree}'),
                         self.git(self.linux, 'rev-parse', 'stack^{tree}'))
        self.assertEqual(self.git(self.kernel, 'status', '--porcelain'), '')
        self.assertEqual(self.git(self.kernel, 'rev-list', '--count', 'master..HEAD'), '3\n')

    def test_one_series(self):
        self.run_script('apply', KSRC=str(self.kernel), SERIES='ext4')
        self.assertEqual(self.git(self.kernel, 'diff', '--name-only', 'master', 'HEAD'),
                         'fs/ext4/super.c\n')
        self.refused("there is no series 'xfs'", SERIES='xfs', BRANCH='other')

    def test_no_tree(self):
        self.assertIn('KSRC is not set', self.run_script('apply', fails=True))
        self.assertIn('not a git work tree',
                      self.run_script('apply', fails=True, KSRC=str(self.dir / 'none')))

    def test_dirty(self):
        (self.kernel / 'fs/ext4/super.c').write_text(JOURNAL + 'int mine;\n')
        self.refused('uncommitted changes')

    def test_wrong_version(self):
        self.commit('Makefile', 'VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 9\n', 'x', self.kernel)
        self.refused('is Linux 7.2.9; the stack needs 7.3')

    def test_modified_base(self):
        self.commit('fs/jbd2/journal.c', JOURNAL + 'int mine;\n', 'x', self.kernel)
        self.refused('differs from Linux 7.3.4: fs/jbd2/journal.c')
        self.run_script('apply', KSRC=str(self.kernel), FORCE='1')

    def test_patch_does_not_apply(self):
        self.commit('fs/ext4/super.c', JOURNAL.replace('line9;', 'other;'), 'x', self.kernel)
        self.refused('patch 3 of 3 does not apply: patches/ext4/0001', FORCE='1')

    def test_other_stable_release(self):
        self.commit('Makefile', 'VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 8\n', 'x', self.kernel)
        self.commit('fs/ext4/super.c', JOURNAL + 'int fix;\n', 'x', self.kernel)
        self.assertIn('differs from Linux 7.3.4: fs/ext4/super.c',
                      self.run_script('apply', KSRC=str(self.kernel)))

    def test_older_release(self):
        """A patch has a version for 7.2, which 7.1 takes too; nothing else changes."""
        self.commit('Makefile', 'VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 8\n', 'x', self.kernel)
        self.commit('fs/ext4/super.c', JOURNAL.replace('line9;', 'line9, old;'), 'x', self.kernel)
        self.refused('is Linux 7.2.8; the stack needs 7.3')
        self.assertIn('no patch of the stack has the subject of HEAD',
                      self.run_script('override', '7.2', str(self.kernel), 'HEAD', fails=True))
        self.run_script('override', 'v7.2', str(self.kernel), 'HEAD', fails=True)

        self.git(self.kernel, 'checkout', '-q', '-b', 'work')
        self.commit('fs/ext4/super.c', JOURNAL.replace('line9;', 'nine, old;'),
                    "ext4: Jörg's line9", self.kernel)
        self.run_script('override', '7.2', str(self.kernel), 'HEAD')
        self.git(self.kernel, 'checkout', '-q', 'master')
        patches = self.run_script('series', '--patches').split()
        for release in ('7.2', '7.1'):
            self.assertEqual(self.run_script('series', '--patches', '--release', release).split(),
                             [*patches[:2], '7.2/' + patches[2]])
        self.assertEqual(self.run_script('series', '--patches', '--release', '7.3').split(),
                         patches)
        views = self.snapshot('patches')
        self.run_script('refresh')
        self.assertEqual(self.snapshot('patches'), views)

        self.run_script('apply', KSRC=str(self.kernel))
        self.assertIn('nine, old;', (self.kernel / 'fs/ext4/super.c').read_text())

        # a series that is not for 7.2 is left out, unless it is named
        (self.top / 'patches/7.2/left-out').write_text('# why\njbd2\n')
        self.git(self.kernel, 'checkout', '-q', 'master')
        self.assertIn('not for 7.2: jbd2\n', self.run_script('apply', KSRC=str(self.kernel),
                                                             BRANCH='without'))
        self.assertFalse((self.kernel / 'fs/jbd2/gate.c').exists())
        self.git(self.kernel, 'checkout', '-q', 'master')
        self.run_script('apply', KSRC=str(self.kernel), BRANCH='with', SERIES='jbd2')
        self.assertTrue((self.kernel / 'fs/jbd2/gate.c').exists())
        self.git(self.kernel, 'checkout', '-q', 'master')
        (self.top / 'patches/7.2' / patches[2]).unlink()
        self.refused('SERIES= those that Documentation/admin/applies.rst has for 7.2', BRANCH='b')

    def test_existing_branch(self):
        self.git(self.kernel, 'branch', 'mine')
        self.refused('already has a branch mine', BRANCH='mine')

    def test_untracked_file_in_the_way(self):
        (self.kernel / 'fs/jbd2/gate.c').write_text('int mine;\n')
        self.refused('could not check out')


class TestBase(Workbench):
    def refused(self, expect, **env):
        self.assertIn(expect, self.run_script('base', fails=True, **env))
        self.assertFalse(self.linux.exists())

    def test_git_tree_keeps_its_commit(self):
        self.run_script('base', KSRC=str(self.kernel))
        self.assertEqual(self.git(self.linux, 'rev-parse', 'base'),
                         self.git(self.kernel, 'rev-parse', 'master'))
        self.assertIn('Linux 7.3.4', self.run_script('base'))

    def test_best_tag(self):
        self.git(self.kernel, 'tag', 'v7.3.4')
        self.commit('fs/ext4/super.c', 'int mine;\n', 'mine', self.kernel)
        self.git(self.kernel, 'tag', 'v7.3.11-mine')
        self.assertIn('fetching v7.3.4 ', self.run_script('base', KSRC=str(self.kernel)))

    def make_tarball(self):
        path = self.dir / 'linux.tar.xz'
        with tarfile.open(path, 'w:xz') as tar:
            tar.add(self.kernel, 'linux', filter=lambda i: None if '/.git' in i.name else i)
        return path

    def test_tarball_is_deterministic(self):
        tarball = self.make_tarball()
        ids = []
        for _ in range(2):
            self.run_script('base', KSRC=str(tarball))
            ids.append(self.git(self.linux, 'rev-parse', 'base'))
            shutil.rmtree(self.top / 'build')
        self.assertEqual(ids[0], ids[1])

    def test_not_there(self):
        self.refused('does not exist', KSRC=str(self.dir / 'none'))
        (self.dir / 'empty').mkdir()
        self.refused('is not a git tree', KSRC=str(self.dir / 'empty'))

    def test_wrong_version(self):
        self.commit('Makefile', 'VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 0\n', 'x', self.kernel)
        self.refused('is Linux 6.12, not 7.3', KSRC=str(self.kernel))

    def test_not_pristine(self):
        self.commit('fs/ext4/super.c', 'int mine;\n', 'x', self.kernel)
        self.refused('differs from Linux 7.3.4: fs/ext4/super.c', KSRC=str(self.kernel))

    def test_broken_tarball_leaves_no_half_state(self):
        tarball = self.make_tarball()
        whole = tarball.read_bytes()
        tarball.write_bytes(whole[:len(whole) // 2])
        self.refused('unpacking', KSRC=str(tarball))
        tarball.write_bytes(whole)
        self.run_script('base', KSRC=str(tarball))
        self.assertFalse((self.top / 'build/linux.tmp').exists())

    def test_half_made_tree_is_redone(self):
        half = self.top / 'build/linux.tmp'
        (half / 'fs').mkdir(parents=True)
        (half / 'leftover').write_text('x')
        self.run_script('base', KSRC=str(self.kernel))
        self.assertFalse((self.linux / 'leftover').exists())

    def test_interrupted_commit_goes_on(self):
        fake = self.dir / 'bin'
        fake.mkdir()
        (fake / 'git').write_text('#!/bin/sh\ncase "$*" in *" commit "*) exit 1;; esac\n'
                                  f'exec {shutil.which("git")} "$@"\n')
        (fake / 'git').chmod(0o755)
        tarball = str(self.make_tarball())
        self.refused('git commit in', KSRC=tarball, PATH=f"{fake}:{self.env['PATH']}")
        self.assertIn('unpacked by an earlier run', self.run_script('base', KSRC=tarball))
        self.assertEqual(self.git(self.linux, 'status', '--porcelain'), '')

    def test_foreign_tree_is_not_taken(self):
        self.linux.mkdir(parents=True)
        self.assertIn('did not make it',
                      self.run_script('base', fails=True, KSRC=str(self.kernel)))

    def test_locked(self):
        (self.top / 'build').mkdir()
        with subprocess.Popen(['flock', self.top / 'build/.lock-tree', 'sh', '-c',
                               'echo locked; read x'], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as holder:
            holder.stdout.readline()
            self.refused('another run is working', KSRC=str(self.kernel))
            holder.stdin.close()
        self.run_script('base', KSRC=str(self.kernel))

    def test_disk_full(self):
        fake = self.dir / 'bin'
        fake.mkdir()
        (fake / 'df').write_text('#!/bin/sh\necho Filesystem\necho /dev/x 9 9 9 9 /\n')
        (fake / 'df').chmod(0o755)
        self.refused('9 MB free', KSRC=str(self.kernel),
                     PATH=f"{fake}:{self.env['PATH']}")


class TestDebianPackage(Workbench):
    """scripts/base with a fake apt: download, checksum, versions, Debian's changes."""

    def setUp(self):
        super().setUp()
        self.bin = self.dir / 'bin'
        self.bin.mkdir()
        self.env['PATH'] = f"{self.bin}:{self.env['PATH']}"
        self.env['APT_ETC'] = str(self.dir / 'etc')
        (self.dir / 'etc').mkdir()
        (self.dir / 'etc/sources.list').write_text('deb http://mirror/debian bookworm main\n')
        self.fake('apt-config', '')
        self.fake('apt-cache', 'cat "$VERSIONS"')
        self.fake('apt-get', 'case "$*" in *update*) exit ${UPDATE:-0};; *download*) '
                             'test "${DOWNLOAD:-0}" = 0 && cp "$DEB" . ;; esac')
        (self.top / 'scripts/base.undo-debian.patch').write_text(
            '--- a/fs/jbd2/journal.c\n+++ b/fs/jbd2/journal.c\n@@ -38,4 +38,3 @@\n'
            ' int line37;\n int line38;\n int line39;\n-int debian;\n')
        self.make_deb(patched=['fs/jbd2/journal.c', 'Makefile'])

    def fake(self, name, body):
        (self.bin / name).write_text(f'#!/bin/sh\n{body}\n')
        (self.bin / name).chmod(0o755)

    def make_deb(self, patched, listed=None, version='7.3.4-1'):
        root = self.dir / 'deb'
        shutil.rmtree(root, ignore_errors=True)
        source, doc = root / 'usr/src', root / 'usr/share/doc/linux-source-7.3'
        for path in (source, doc, root / 'DEBIAN'):
            path.mkdir(parents=True)
        (doc / 'copyright').write_text('Format: x\nFiles-Excluded: drivers/a\n drivers/b\n'
                                       'Comment:\n text\n\nFiles: *\n')

        def debianize(info):
            if '/.git' in info.name:
                return None
            info.mtime = 2000 if info.name[6:] in patched else 1000
            return info

        text = (self.kernel / 'fs/jbd2/journal.c').read_text()
        (self.kernel / 'fs/jbd2/journal.c').write_text(text + 'int debian;\n')
        with tarfile.open(source / 'linux-source-7.3.tar.xz', 'w:xz') as tar:
            tar.add(self.kernel, 'linux', filter=debianize)
        (self.kernel / 'fs/jbd2/journal.c').write_text(text)
        (root / 'DEBIAN/control').write_text(f'Package: linux-source-7.3\nVersion: {version}\n'
                                             'Architecture: all\nMaintainer: x\nDescription: x\n')
        deb = self.dir / 'x.deb'
        subprocess.run(['dpkg-deb', '-b', root, deb], check=True, capture_output=True)
        listed = patched if listed is None else listed
        (self.top / 'scripts/base.debian-changes').write_text(
            ''.join(f'M {p}\n' for p in sorted(listed)) + 'D drivers/a\nD drivers/b\n')
        conf = self.top / 'scripts/base.conf'
        lines = [line for line in conf.read_text().splitlines()
                 if not line.startswith('BASE_PACKAGE_')]
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        conf.write_text('\n'.join(lines + ["BASE_PACKAGE_VERSION='7.3.4-1'",
                                           f'BASE_PACKAGE_SHA256={digest}']) + '\n')
        self.env['DEB'] = str(deb)
        self.versions('7.3.4-1')

    def versions(self, *versions):
        path = self.dir / 'versions'
        path.write_text(''.join(f'linux-source-7.3 | {v} | x\n' for v in versions))
        self.env['VERSIONS'] = str(path)

    def refused(self, expect, **env):
        self.assertIn(expect, self.run_script('base', fails=True, **env))
        self.assertFalse(self.linux.exists())

    def test_pinned(self):
        self.run_script('base')
        self.assertEqual((self.linux / 'fs/jbd2/journal.c').read_text(), JOURNAL)
        self.assertEqual(self.git(self.linux, 'log', '-1', '--format=%an %at %cn %ct %s', 'base'),
                         'Linux 1000 Linux 1000 Linux 7.3.4\n')
        # again, without its tree: the download is used
        shutil.rmtree(self.linux)
        self.assertIn('downloaded already', self.run_script('base', UPDATE='1'))

    def test_no_network(self):
        self.refused('apt could not read', UPDATE='1')
        self.refused('downloading linux-source-7.3 7.3.4-1 failed', DOWNLOAD='1')
        self.run_script('base')

    def test_checksum_mismatch(self):
        bad = self.dir / 'bad.deb'
        bad.write_bytes(pathlib.Path(self.env['DEB']).read_bytes() + b'x')
        self.refused('SHA-256 mismatch', DEB=str(bad))
        self.assertEqual(list((self.top / 'build/apt').glob('*.deb')), [])
        self.run_script('base')

    def test_newer_release(self):
        self.versions('7.3.10-1', '7.3.9-1', '7.4.1-1', '7.30.1-1')
        output = self.run_script('base')
        self.assertIn('NOTE: 7.3.4-1 is gone; using 7.3.10-1', output)

    def test_gone(self):
        self.versions('7.4.1-1')
        self.refused('has no linux-source-7.3')

    def test_unknown_debian_change(self):
        self.make_deb(['fs/jbd2/journal.c', 'Makefile'], listed=['fs/jbd2/journal.c'])
        self.refused("Debian's changes are not those in")

    def test_debian_change_in_manifest_file(self):
        self.make_deb(['fs/jbd2/journal.c', 'fs/ext4/super.c'])
        self.refused("must be mainline's: fs/ext4/super.c")

    def test_no_mirror(self):
        (self.dir / 'etc/sources.list').write_text('deb http://mirror/ubuntu noble main\n')
        self.refused('names no Debian mirror')


class TestAptSource(unittest.TestCase):
    def setUp(self):
        self.module = program.load('scripts/apt-source')
        self.etc = pathlib.Path(tempfile.mkdtemp(prefix='test_scripts.'))
        self.addCleanup(shutil.rmtree, self.etc)
        (self.etc / 'sources.list.d').mkdir()

    def find(self, **files):
        for name, text in files.items():
            directory = self.etc if name == 'sources_list' else self.etc / 'sources.list.d'
            (directory / name.replace('_', '.')).write_text(text)
        return self.module.debian_mirror(self.module.read_sources(self.etc), {'bookworm', 'trixie'})

    def test_oneline(self):
        self.assertEqual(self.find(sources_list='# deb http://no/ bookworm main\n'
                                   'deb-src http://src/ bookworm main\n'
                                   'deb [arch=amd64 signed-by=/k.gpg] http://m/debian/ bookworm '
                                   'contrib main # x\n'), (['http://m/debian/'], '/k.gpg'))

    def test_deb822(self):
        self.assertEqual(self.find(debian_sources='# c\nTypes: deb deb-src\n# c\nURIs: http://m/d '
                                   'mirror+file:/etc/m\nSuites: trixie\n trixie-updates\n'
                                   'Components: main\nSigned-By: /k.gpg\n'),
                         (['http://m/d', 'mirror+file:/etc/m'], '/k.gpg'))

    def test_embedded_key(self):
        key = '\n -----BEGIN PGP-----\n .\n abc'
        self.assertEqual(self.find(a_sources='Types: deb\nURIs: http://m/d\nSuites: trixie\n'
                                   f'Components: main\nSigned-By:{key}\n')[1].strip(), key.strip())

    def test_skips_others(self):
        self.assertIsNone(self.find(
            a_sources='Enabled: no\nTypes: deb\nURIs: http://m/\nSuites: trixie\n'
                      'Components: main\n',
            b_list='deb http://cloud/apt cloud-bookworm main\ndeb cdrom:[x]/ trixie main\n'
                   'deb http://security/ bookworm-security main\ndeb http://m/ trixie contrib\n',
            c_save='deb http://old/ trixie main\n'))

    def test_second_stanza(self):
        self.assertEqual(self.find(a_sources='Types: deb\nURIs: http://s/\nSuites: '
                                   'bookworm-security\nComponents: main\n\n\nTypes: deb\nURIs: '
                                   'http://m/\nSuites: bookworm\nComponents: main\n'),
                         (['http://m/'], None))


class TestMail(Workbench):
    def setUp(self):
        super().setUp()
        self.make_stack()
        self.letter = self.top / 'patches/jbd2/0000-cover-letter.txt'
        self.letter.write_text('jbd2: gates for the journal\n\nMeasured: faster.\nFrom here on.\n')
        (self.top / 'patches/jbd2/recipients').write_text('# c\nTo: linux-ext4@vger.kernel.org\n')

    def test_mail(self):
        self.run_script('mail', 'jbd2')
        out = self.top / 'build/mail/jbd2'
        names = sorted(p.name for p in out.iterdir())
        self.assertEqual([n[:4] for n in names], ['0000', '0001', '0002'])
        cover = (out / names[0]).read_text()
        self.assertIn('Subject: [PATCH 0/2] jbd2: gates for the journal\n', cover)
        self.assertIn('Measured: faster.', cover)
        self.assertIn('2 files changed', cover)
        self.assertIn('To: linux-ext4@vger.kernel.org', cover)
        self.assertIn('Jan Maintainer <jan@example.org>', cover)
        self.assertIn('Cc: =?utf-8?q?J=C3=B6rg_Reviewer?= <joerg@example.org>', cover)
        self.assertEqual(cover.count('linux-ext4@'), 1)
        self.assertIn('Subject: [PATCH 2/2] jbd2: add a gate', (out / names[2]).read_text())
        # git takes the mbox back, cover letter aside
        self.git(self.kernel, 'am', *(out / n for n in names[1:]))
        self.assertEqual(self.git(self.kernel, 'rev-parse', 'HEAD^{tree}'),
                         self.git(self.linux, 'rev-parse', 'stack~1^{tree}'))
        mbox = self.top / 'build/mail/jbd2.mbox'
        self.assertEqual(self.git(self.kernel, 'mailsplit', f'-o{self.dir}', mbox).strip(), '3')

    @unittest.skipUnless(shutil.which('b4'), 'needs b4')
    def test_b4_accepts_it(self):
        self.run_script('mail', 'jbd2')
        (self.dir / 'b4').mkdir()
        result = subprocess.run(['b4', '--no-stdin', '--offline-mode', 'am', '-C', '-m',
                                 self.top / 'build/mail/jbd2.mbox', '-o', self.dir / 'b4'],
                                cwd=self.kernel, env=self.env, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn('Measured: faster.', next((self.dir / 'b4').glob('*.cover')).read_text())
        self.git(self.kernel, 'am', next((self.dir / 'b4').glob('*.mbx')))
        self.assertEqual(self.git(self.kernel, 'rev-parse', 'HEAD^{tree}'),
                         self.git(self.linux, 'rev-parse', 'stack~1^{tree}'))

    def test_base_and_what_it_depends_on(self):
        directory = self.top / 'patches/ext4'
        (directory / 'recipients').write_text('To: linux-ext4@vger.kernel.org\n')
        letter = directory / '0000-cover-letter.txt'
        base = self.git(self.linux, 'rev-parse', 'base').strip()
        for text, count in ('ext4: x\n\nText.\n', 0), ('ext4: x\n\nText.\n\ndepends: jbd2\n', 2):
            letter.write_text(text)
            self.run_script('mail', 'ext4')
            cover = next((self.top / 'build/mail/ext4').glob('0000*')).read_text()
            self.assertIn(f'base-commit: {base}\n', cover)
            self.assertEqual(cover.count('prerequisite-patch-id: '), count)
            self.assertNotIn('depends:', cover)
        self.assertIn('on top of:\n  "jbd2: gates for the journal"\n', cover)
        self.assertIn('a tree without history', cover)
        # a tree of the user's that has the release says what others call it
        self.git(self.kernel, 'tag', 'v7.3.4')
        self.run_script('mail', 'ext4', KSRC=str(self.kernel))
        cover = next((self.top / 'build/mail/ext4').glob('0000*')).read_text()
        theirs = self.git(self.kernel, 'rev-parse', 'v7.3.4').strip()
        self.assertIn(f'base-commit: {theirs}\n', cover)
        self.assertNotIn('a tree without history', cover)

    def test_reroll(self):
        self.run_script('mail', REROLL='2', SERIES='jbd2')
        cover = next((self.top / 'build/mail/jbd2').glob('v2-0000*')).read_text()
        self.assertIn('Subject: [PATCH v2 0/2]', cover)

    def test_refusals(self):
        self.assertIn('one of: jbd2 ext4', self.run_script('mail', 'none', fails=True))
        self.assertIn('0000-cover-letter.txt is missing',
                      self.run_script('mail', 'ext4', fails=True))
        self.letter.write_text('jbd2: x\n\nTODO\n')
        self.assertIn("still has 'TODO'", self.run_script('mail', 'jbd2', fails=True))
        self.assertFalse((self.top / 'build/mail/jbd2').exists())


class TestSetup(Workbench):
    def test_not_root_and_no_sudo(self):
        fake = self.dir / 'bin'
        fake.mkdir()
        for name, body in {'dpkg-query': 'echo installed git', 'id': 'echo 1000'}.items():
            (fake / name).write_text(f'#!/bin/sh\n{body}\n')
            (fake / name).chmod(0o755)
        for tool in 'bash sh dirname sed date nproc comm sort mkdir cat'.split():
            (fake / tool).symlink_to(shutil.which(tool))
        (self.top / 'scripts/packages.txt').write_text('# tools\ngit\nno-such-package # x\n')
        output = self.run_script('setup', fails=True, PATH=str(fake))
        self.assertIn('neither root nor have sudo', output)
        self.assertIn('apt-get install --no-install-recommends no-such-package\n', output)
        (self.top / 'scripts/packages.txt').write_text('git\n')
        self.assertIn('all 1 packages are installed', self.run_script('setup', PATH=str(fake)))


if __name__ == '__main__':
    unittest.main()
