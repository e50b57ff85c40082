# A code session: a bash that keeps variables, functions and the working directory between runs. bridge.sh starts it. Its
# arguments are the session's name, and the seconds after which an unused session ends. It reads the names of runs from
# a pipe: NAME.code has the code, and the pipes NAME.out, NAME.err and NAME.end receive the output and the end.

__sb_name=$1 __sb_idle=$2 __sb_dir=/tmp/.sb-code-$UID __sb_count=0 __sb_started=${EPOCHREALTIME/,/.}
shift 2

# __sb_save writes the state, for lists.
__sb_save() {
	printf '{"language":"bash","pid":%d,"started":%s,"used":%s,"idle_timeout":%d,"execution_count":%d}\n' \
		$$ "$__sb_started" "${EPOCHREALTIME/,/.}" "$__sb_idle" "$__sb_count" >"$__sb_dir/$__sb_name.tmp"
	printf '%d\n' "$__sb_count" >"$__sb_dir/$__sb_name.count"
	PATH=/usr/bin:/bin command mv -f "$__sb_dir/$__sb_name.tmp" "$__sb_dir/$__sb_name.json"
}

# __sb_check returns from the code after an interrupt: 2 in a DEBUG trap means return, with extdebug.
__sb_check() { [[ -z $__sb_stop || ${#FUNCNAME[@]} -le 3 ]] || return 2; }

__sb_run() {
	__sb_stop=
	trap __sb_check DEBUG
	. "$1.code" </dev/null >"$1.out" 2>"$1.err"
	__sb_status=$?
	trap - DEBUG
	[[ -n $__sb_stop ]] && __sb_status=interrupted
	__sb_stop=
}

command mkdir "$__sb_dir/$__sb_name.lock" 2>/dev/null || {
	# Another start was first, unless the lock is that of a dead session.
	read -r __sb_pid <"$__sb_dir/$__sb_name.pid"
	[[ -n $__sb_pid && $(tr '\0' ' ' <"/proc/$__sb_pid/cmdline") == *" $__sb_name "* ]] 2>/dev/null && exit 0
}
command rm -f "$__sb_dir/$__sb_name".{in,busy}
command mkfifo "$__sb_dir/$__sb_name.in"
exec {__sb_in}<>"$__sb_dir/$__sb_name.in"
trap __sb_stop=1 INT
trap : PIPE HUP # and not ignored: commands would inherit that
shopt -s extdebug
set -T
printf '%d\n' $$ >"$__sb_dir/$__sb_name.pid"
__sb_save
__sb_wait=$((__sb_idle > 60 ? __sb_idle : 60)) # until the first client connects
while IFS= read -r -t "$__sb_wait" -u "$__sb_in" __sb_next; do
	__sb_wait=$__sb_idle
	[ -e "$__sb_next.code" ] || continue # it was canceled
	: >"$__sb_dir/$__sb_name.busy"
	__sb_count=$((__sb_count + 1))
	exec {__sb_end}<>"$__sb_next.end"
	printf 'begin\n' >&"$__sb_end"
	__sb_run "$__sb_next"
	PATH=/usr/bin:/bin command rm -f "$__sb_dir/$__sb_name.busy"
	__sb_save
	printf 'end %s\n' "$__sb_status" >&"$__sb_end"
	exec {__sb_end}>&-
done
: >"$__sb_dir/$__sb_name.ended"
command rm -f "$__sb_dir/$__sb_name".{in,pid,lock}
