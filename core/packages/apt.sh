# install_apt installs Debian packages. With SB_APT_MIRROR, the address of an archive, it reads changed copies of the
# lists of sources, so that the machine keeps its own.
install_apt() {
	l=
	o=
	if [ -n "$SB_APT_MIRROR" ]; then
		l=$(mktemp -d) || return
		mkdir "$l/parts" || return
		cat /etc/apt/sources.list >"$l/list" 2>/dev/null
		cp /etc/apt/sources.list.d/* "$l/parts" 2>/dev/null
		sed -i -E "s#[a-z]+:/[^ ]*/(debian|ubuntu)/?([[:space:]]|\$)#${SB_APT_MIRROR%/}\\2#" "$l/list" \
			$(ls -d "$l/parts/"* 2>/dev/null) || return
		chmod -R a+rX "$l"
		o="-o Dir::Etc::SourceList=$l/list -o Dir::Etc::SourceParts=$l/parts"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get $o -q update && apt-get $o install -y -q --no-install-recommends -- "$@"
	status=$?
	[ -z "$l" ] || rm -r "$l"
	return $status
}
