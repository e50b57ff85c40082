# Connects its stdin, stdout and stderr to a code session of bash. bridge.py describes the commands, which are the same.
#
# The output of the code passes as it is. Lines of stderr that begin with the byte 0x1e are events, in JSON. A request is
# a line with its name and the size of its content, and the content: "run SIZE" has code, "start SIZE" the program of a
# session.

export LC_ALL=C
dir=/tmp/.sb-code-$UID
start_limit=60 interrupt_limit=5

say() { printf '\036%s\n' "$1" >&2; }

# alive sets pid, and reports whether the session NAME runs.
alive() {
	local line
	pid=
	[ -e "$dir/$1.pid" ] && read -r pid <"$dir/$1.pid" && [ -r "/proc/$pid/cmdline" ] || return 1
	line=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) && [[ $line == *" $1 "* ]]
}

# finish kills the session NAME, removes its files, and reports whether there was one.
finish() {
	local found=1 tries=0
	[ -e "$dir/$1.json" ] && found=0
	while alive "$1" && [ $((tries += 1)) -lt 500 ]; do
		found=0
		kill -KILL -- "-$pid" 2>/dev/null || kill -KILL "$pid" 2>/dev/null
		sleep 0.01
	done
	rm -rf "${dir:?}/$1".{json,pid,in,src,log,lock,busy}
	return $found
}

cancel() {
	say "{\"type\":\"error\",\"name\":\"$1\",\"value\":\"$2\",\"traceback\":[\"$1: $2\"]}"
	say '{"type":"end","ok":false}'
	kill $out $err 2>/dev/null
	rm -f "$run".{code,out,err,end}
	exit 0
}

# absent waits for the request that starts the session NAME, and for the session.
absent() {
	local known=false ended= op size deadline=$((SECONDS + start_limit))
	[ -e "$dir/$1.json" ] && known=true
	[ -e "$dir/$1.ended" ] && ended=idle
	say "{\"type\":\"absent\",\"known\":$known,\"ended\":\"$ended\"}"
	read -r op size && [ "$op" = start ] || exit 0
	rm -f "$dir/$1".{log,ended}
	head -c "$size" >"$dir/$1.new.$$" && mv "$dir/$1.new.$$" "$dir/$1.src"
	say '{"type":"ready"}'
	until alive "$1" && [ -p "$dir/$1.in" ]; do
		if [ "$SECONDS" -ge "$deadline" ]; then
			say '{"type":"failed","message":"it does not answer"}'
			exit 0
		fi
		sleep 0.005
	done
}

interrupt() {
	[ -n "$begun" ] || cancel KeyboardInterrupt 'the run was canceled before it began'
	kill -INT -- "-$pid" 2>/dev/null || kill -INT "$pid" 2>/dev/null
}

# follow waits for the end of the run.
follow() {
	local word status left interrupted=
	while :; do
		left=1
		[ -n "$limit" ] && [ "$limit" -le "$SECONDS" ] && left=0.01
		if read -r -t "$left" -u "$end" word status; then
			case $word in
			begin)
				begun=1
				say '{"type":"begin"}'
				[ "$2" = 0 ] || limit=$((SECONDS + $2))
				;;
			end) break ;;
			esac
		elif ! alive "$1"; then
			return 1
		elif [ -n "$limit" ] && [ "$SECONDS" -ge "$limit" ]; then
			[ -z "$interrupted" ] || cancel TimeoutError 'the code ignores the interrupt and keeps running'
			interrupted=1 limit=$((SECONDS + interrupt_limit))
			say '{"type":"timeout"}'
			interrupt
		fi
	done
	result=$status
}

run() { # NAME TIMEOUT [new]
	local op size begun= limit= result= timeout=${2%.*} tries=0 out= err=
	[ "${2#*.}" = 000 ] || timeout=$((timeout + 1))
	trap interrupt INT
	mkdir -p -m 700 "$dir"
	if [ ! -O "$dir" ]; then
		say "{\"type\":\"failed\",\"message\":\"$dir belongs to another user\"}"
		exit 0
	fi
	run=$dir/$1.$$
	read -r op size && [ "$op" = run ] || exit 0
	head -c "$size" >"$run.code"
	[ "$3" = new ] && finish "$1"
	alive "$1" && [ -p "$dir/$1.in" ] || absent "$1"
	say '{"type":"hello","protocol":1}'
	[ -e "$dir/$1.busy" ] && say '{"type":"queued"}'
	mkfifo "$run.out" "$run.err" "$run.end"
	exec {end}<>"$run.end"
	cat "$run.out" &
	out=$!
	cat "$run.err" >&2 &
	err=$!
	printf '%s\n' "$run" >"$dir/$1.in"
	if ! follow "$1" "$timeout"; then
		kill "$out" "$err" 2>/dev/null
		rm -f "$run".{code,out,err,end}
		exit 0
	fi
	# A process that the code left running may hold the pipes.
	while { kill -0 "$out" || kill -0 "$err"; } 2>/dev/null && [ $((tries += 1)) -lt 200 ]; do sleep 0.01; done
	kill "$out" "$err" 2>/dev/null
	rm -f "$run".{code,out,err,end}
	if [ "$result" = interrupted ]; then
		say '{"type":"error","name":"KeyboardInterrupt","value":"","traceback":["KeyboardInterrupt"]}'
	fi
	read -r count <"$dir/$1.count"
	local ok=false
	[ "$result" = 0 ] && ok=true
	say "{\"type\":\"end\",\"ok\":$ok,\"execution_count\":${count:-0}}"
}

list() {
	local file name state
	for file in "$dir"/bash.*.json; do
		[ -e "$file" ] || continue
		name=${file##*/} name=${name%.json} state=lost
		[ -e "$dir/$name.ended" ] && state=ended
		alive "$name" && state=idle && [ -e "$dir/$name.busy" ] && state=busy
		printf '{"type":"session","name":"%s","state":"%s",%s\n' "$name" "$state" "$(tail -c +2 "$file")"
	done
}

command=$1
shift
case $command in
run) run "$@" ;;
ls) list ;;
interrupt)
	found=false
	alive "$1" && found=true && [ -e "$dir/$1.busy" ] && { kill -INT -- "-$pid" || kill -INT "$pid"; } 2>/dev/null
	printf '{"type":"done","found":%s}\n' "$found"
	;;
close)
	found=false
	finish "$1" && found=true
	rm -f "$dir/$1".{ended,count}
	printf '{"type":"done","found":%s}\n' "$found"
	;;
esac
