# A machine that boots with systemd and nothing but the service $2; $1 is a folder that is written to, $3 is bulkhead.
exec >"$1/log" 2>&1
units=/etc/systemd/system
name=$(basename "$2")
mount -t tmpfs none $units
for target in sysinit basic multi-user shutdown local-fs network; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\nAllowIsolate=yes\n' $target >$units/$target.target
done
cp "$2" $units/
mkdir "$units/$name.d"
printf '[Service]\nStandardOutput=append:%s/log\nStandardError=append:%s/log\n' "$1" "$1" >"$units/$name.d/log.conf"
cat >$units/look.service <<X
[Unit]
After=$name
[Service]
Type=oneshot
ExecStart=/bin/sh $1/look.sh
StandardOutput=append:$1/log
StandardError=append:$1/log
[Install]
WantedBy=multi-user.target
X
cat >"$1/look.sh" <<X
echo "service: \$(systemctl is-active $name)"
$3 ps
systemctl stop $name
echo "stopped: \$(systemctl is-active $name)"
$3 ps
cat /proc/[0-9]*/comm | sed 's/^/left: /'
echo end
kill -s RTMIN+14 1
X
export SYSTEMD_UNIT_PATH=$units container=other
systemctl enable "$name" look.service
exec unshare --pid --fork --mount --mount-proc sh -c 'mount -t tmpfs none /run && mkdir /run/systemd &&
    exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --show-status=no </dev/null'
