# Installs packages: MANAGER PACKAGE... A line that begins with "sb: " is read by this package.
manager=$1
shift

has() { command -v "$1" >/dev/null 2>&1; }

missing() {
	echo "sb: the sandbox has no $1" >&2
	exit 127
}

if [ "$manager" = auto ]; then
	if has uv && has python3; then
		manager=uv
	elif has python3 && python3 -m pip --version >/dev/null 2>&1; then
		manager=pip
	elif has npm; then
		manager=npm
	elif has apt-get; then
		manager=apt
	else
		missing 'uv, pip, npm or apt-get'
	fi
fi
case $manager in
uv | npm) has "$manager" || missing "$manager" ;;
pip) python3 -m pip --version >/dev/null 2>&1 || missing pip ;;
apt) has apt-get || missing apt-get ;;
esac

# Installations of one user come one after the other. The lock belongs to the open file, so a child may take it.
exec 9>>"/tmp/.sb-install-$(id -u).lock" || exit 1
if has flock; then
	flock -n 9 || { echo 'sb: queued' && flock 9; } || exit 1
elif has python3; then
	python3 -c 'import fcntl
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("sb: queued", flush=True)
    fcntl.flock(9, fcntl.LOCK_EX)' || exit 1
fi
echo "sb: installing with $manager"

# Without the lock, because a package may leave a server running.
{
	case $manager in
	uv)
		system=--system
		[ -z "$VIRTUAL_ENV" ] || system=
		UV_BREAK_SYSTEM_PACKAGES=1 uv pip install $system -- "$@"
		;;
	pip)
		PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore \
			python3 -m pip install --disable-pip-version-check --no-input -- "$@"
		;;
	npm)
		# Node.js does not search npm's global directory, but /node_modules, for every program.
		npm install --global --no-fund --no-audit -- "$@" &&
			{ [ -e /node_modules ] || ln -s "$(npm root --global)" /node_modules || :; }
		;;
	apt) install_apt "$@" ;;
	esac
} 9>&- || exit

# The versions are for the reader. Without one, the installation succeeded all the same.
for package; do
	case $manager in
	uv | pip)
		name=${package%%[!A-Za-z0-9._-]*}
		python3 -c 'import sys, importlib.metadata as m
print("sb: installed", sys.argv[1], m.version(sys.argv[1]))' "$name" 2>/dev/null
		;;
	npm)
		version=$(npm ls --global --depth=0 --parseable --long -- "$package" 2>/dev/null | sed -n '$s/^[^:]*://p')
		[ -z "$version" ] || echo "sb: installed ${version%@*} ${version##*@}"
		;;
	apt) dpkg-query -W -f 'sb: installed ${Package} ${Version}\n' -- "${package%%[=/]*}" 2>/dev/null ;;
	esac
done
exit 0
