#!/bin/sh
# Starts one job at most once, while its lease lasts; POSIX sh. Records are in the directory $room:
#   lease  the job may start, until this file's time of change    end  the exit status; by a rename
#          its text: for how many seconds; with "start" behind it, counted from the start
#   over   the lease was over, and the job was ended
#   start  exclusive: "started" or "forbidden", and by whom
# Exit statuses besides the payload's: 75 it may not start, 78 the records, or the directory and files of
# the order, cannot be used.
set -u
room=@ROOM@
directory=@DIRECTORY@
umask=@UMASK@
stdin=@STDIN@
stdout=@STDOUT@
stderr=@STDERR@
payload=''
got=''

say() { printf 'matchmaker: %s\n' "$1" >&2; }

[ -d "$room" ] || { say "$room is not there on $(uname -n): is the spool shared with the nodes?"; exit 78; }
unusable() { say "no record can be made in $room"; exit 78; }

# Makes the exclusive record of the start; fails if another has it. A link is atomic on NFS too, but
# its reply may be lost, so that what counts is whose record is there. The name that mktemp makes
# tells apart starts with the same host and process id, as in containers. A record that cannot be
# read back, as on a full disk, is not linked.
take() {
	made=$(mktemp "$room/.start.XXXXXXXXXX" 2>/dev/null) || unusable
	me="$(uname -n).$$.$(date +%s).${made##*.}"
	printf '%s %s\n' "$1" "$me" 2>/dev/null >"$made" && sync "$made" 2>/dev/null
	kept=''
	read -r kept <"$made" && [ "$kept" = "$1 $me" ] && ln "$made" "$room/start" 2>/dev/null
	rm -f "$made"
	[ "$kept" = "$1 $me" ] || unusable
	[ -e "$room/start" ] || unusable
	kept=''
	read -r kept <"$room/start" && [ "$kept" = "$1 $me" ]
}

# Whether the lease lasts, by the clock of the storage: 0 yes, 1 no, 2 the storage does not answer.
lasts() {
	touch "$room/beat" 2>/dev/null || return 2
	read -r granted begins 2>/dev/null <"$room/lease" || return 2
	[ -n "$(find "$room/lease" -newer "$room/beat" 2>/dev/null)" ]
}

# Leaves the record of the end, with a status and a reason for people, and ends with the status.
finish() {
	status=$1
	[ -z "${2-}" ] || say "$2"
	left=5
	until { printf '%s %s\n' "$status" "$me" >"$room/.end.$me" &&
		{ sync "$room/.end.$me" 2>/dev/null; mv -f "$room/.end.$me" "$room/end"; }; } 2>/dev/null; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || { say "the record of the end cannot be written in $room"; break; }
		sleep 1
	done
	exit "$status"
}

# Without leave it never starts: the record says so to whoever would commit it now.
granted=0
begins=''
[ -e "$room/lease" ] || { take forbidden; say "$room: not committed, it does not start"; exit 75; }
lasts || { take forbidden; say "$room: its lease is over, it does not start"; exit 75; }
take started || { say "$room: another start has the record"; exit 75; }

# The processes of the job but for this shell and $1: what descends from it and, where it leads its
# process group, as the batch system has started it, the group.
family() {
	{ ps -A -o pid= -o ppid= -o pgid= 2>/dev/null || ps -o pid,ppid,pgid; } | awk -v main="$$" -v self="$1" '
		function under(p, root, n) {
			for (n = 0; p > 1 && n < 999; n++) { if (p == root) return 1; p = up[p] }
			return 0
		}
		$1 > 0 { up[$1] = $2; group[$1] = $3 }
		END {
			for (p in up) {
				if (p == main || under(p, self)) continue
				if (under(p, main) || (group[main] == main && group[p] == main)) print p
			}
		}'
}

# Ends the job once its lease is over, or once the storage has been silent for as long.
watch() {
	# Signals to the whole job must not end the watch: the payload may go on after them.
	trap '' HUP INT QUIT TERM USR1 USR2
	nap=''
	trap '[ -z "$nap" ] || kill -s KILL "$nap" 2>/dev/null; exit' ALRM
	self=$(exec sh -c 'echo "$PPID"')
	every=$((granted / 4))
	[ "$every" -le 30 ] || every=30
	[ "$every" -ge 1 ] || every=1
	silent=0
	ran=0
	while :; do
		sleep "$every" & nap=$!
		wait "$nap"
		ran=$((ran + every))
		lasts
		case $? in
		0) silent=0; [ "$begins" != start ] || [ "$ran" -lt "$granted" ] || break ;;
		1) break ;;
		*) silent=$((silent + every)); [ "$silent" -lt "$granted" ] || break ;;
		esac
	done
	trap '' ALRM
	touch "$room/over" 2>/dev/null
	for signal in TERM KILL; do
		processes=$(family "$self")
		# shellcheck disable=SC2086 # a list of numbers
		kill -s "$signal" ${processes:-"$1"} 2>/dev/null
		[ "$signal" = KILL ] || sleep @GRACE@
	done
}

# A shell without job control starts its payload deaf to INT and QUIT.
pass() {
	got=$1
	[ -z "$payload" ] || kill -s "$1" "$payload" 2>/dev/null
}
for signal in HUP TERM USR1 USR2; do
	# shellcheck disable=SC2064 # the name is meant as it is now
	trap "pass $signal" "$signal"
done
trap 'pass TERM' INT QUIT

# The order's own directory, files and variables, wherever and however the batch system starts a job.
[ -z "$umask" ] || umask "$umask"
[ -z "$directory" ] || cd "$directory" || finish 78 "$directory cannot be entered on $(uname -n)"
if [ -n "$stdin" ]; then
	[ -r "$stdin" ] || finish 78 "$stdin cannot be read on $(uname -n)"
	exec <"$stdin"
fi
if [ -n "$stdout" ]; then
	(: >"$stdout") 2>/dev/null || finish 78 "$stdout cannot be written on $(uname -n)"
	exec >"$stdout"
fi
if [ -n "$stderr" ]; then
	if [ "$stderr" = "$stdout" ]; then
		exec 2>&1
	else
		(: >"$stderr") 2>/dev/null || finish 78 "$stderr cannot be written on $(uname -n)"
		exec 2>"$stderr"
	fi
fi

# In a shell of its own: a variable of the order may have the name of one above, or take the commands from PATH.
exec 3<&0
(
	set -- "$room/payload"@ARGUMENTS@
	@EXPORTS@
	exec "$@"
) <&3 3<&- & payload=$!
exec 3<&-
[ -z "$got" ] || pass "$got"
watch "$payload" </dev/null >/dev/null 2>&1 & watcher=$!

# A signal ends the wait, not the payload.
while :; do
	wait "$payload"
	status=$?
	kill -0 "$payload" 2>/dev/null || break
done
# A watch that is ending the rest of the family does not listen.
kill -s ALRM "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null

finish "$status"
