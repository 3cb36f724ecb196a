# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# An apt of our own, sourced after lib.sh: Debian's packages of another release, from the
# mirror of this machine, without a change to it.

APT=$BUILD/apt

# private_apt SUITE...: make O/apt, apt's state and configuration for these suites.
private_apt()
{
	local codename suite

	exec 8>"$BUILD/.lock-apt"
	flock 8
	need apt-get apt-cache apt-config dpkg-deb python3
	mkdir -p "$APT/sources" "$APT/lists/partial" "$APT/cache/archives/partial"
	: >"$APT/status"
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null) || :
	rm -f "$APT"/sources/*.sources
	for suite; do
		"$TOP/scripts/apt-source" --etc "${APT_ETC:-/etc/apt}" --codename "${codename:-none}" \
			"$suite" >"$APT/sources/$suite.sources" || return
	done
	{
		# the machine's proxy and transport settings, not its hooks
		apt-config dump | grep -E '^Acquire::(http|https|ftp|tor|Check-|Force|Retries)' || :
		cat <<-END
		Dir::State "$APT";
		Dir::State::lists "$APT/lists";
		Dir::State::status "$APT/status";
		Dir::Cache "$APT/cache";
		Dir::Etc::SourceList "/dev/null";
		Dir::Etc::SourceParts "$APT/sources";
		Dir::Etc::Main "/dev/null";
		Dir::Etc::Parts "/dev/null";
		Dir::Etc::Preferences "/dev/null";
		Dir::Etc::PreferencesParts "/dev/null";
		APT::Sandbox::User "$(id -un)";
		APT::Get::AllowUnauthenticated "false";
		APT::Update::Error-Mode "any";
		Acquire::AllowInsecureRepositories "false";
		Acquire::Languages "none";
		END
	} >"$APT/apt.conf"
	export APT_CONFIG=$APT/apt.conf
}

# run_apt ARG...: apt-get, its output shown only when it fails.
run_apt()
{
	apt-get -q "$@" >"$BUILD/log/apt.log" 2>&1 ||
		{ grep -E '^(E|W|Err):?' "$BUILD/log/apt.log" | tail -n 5 >&2; return 1; }
}
