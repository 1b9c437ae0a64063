# A machine that boots with systemd and nothing but the service $2, and one of an ordinary user, whose manager logind starts at
# boot; $1 is a folder that is written to, $3 is bulkhead, $4 the user's set, $5 the cache whose kernel he gets a copy of.
exec >"$1/log" 2>&1
units=/etc/systemd/system
name=$(basename "$2")
home=/home/worker
mount -t tmpfs none $units
for target in sysinit basic multi-user shutdown local-fs network; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\nAllowIsolate=yes\n' $target >$units/$target.target
done
for unit in dbus.service dbus.socket systemd-logind.service user@.service user-runtime-dir@.service; do
    cp /usr/lib/systemd/system/$unit $units/
done
mkdir $units/multi-user.target.wants
ln -s ../systemd-logind.service $units/multi-user.target.wants/
cp "$2" $units/
mkdir "$units/$name.d"
printf '[Service]\nStandardOutput=append:%s/log\nStandardError=append:%s/log\n' "$1" "$1" >"$units/$name.d/log.conf"

# The user, and what he does once: has the service written, enables it, lets his manager linger.
echo "worker:*:1500:1500::$home:/bin/sh" >>/etc/passwd
echo 'worker:x:1500:' >>/etc/group
mkdir -p $home/.cache/bulkhead $home/.config/systemd/user/bulkhead-own.service.d /var/lib/systemd/linger
cp -r "$5/kernel" "$5/vmlinux" $home/.cache/bulkhead/
cp "$4" $home/own.toml
touch "$1/own.log" /var/lib/systemd/linger/worker
chmod 666 "$1/own.log"
printf '[Service]\nStandardOutput=append:%s/own.log\nStandardError=append:%s/own.log\n' "$1" "$1" \
    >$home/.config/systemd/user/bulkhead-own.service.d/log.conf
chmod -R go-w $home
chown -R 1500:1500 $home
cat >"$1/as_worker.sh" <<X
cd $home && exec setpriv --reuid 1500 --regid 1500 --clear-groups env -i HOME=$home PATH=$PATH XDG_RUNTIME_DIR=/run/user/1500 "\$@"
X
sh "$1/as_worker.sh" "$3" up own.toml --emit boot --out boot
sh "$1/as_worker.sh" systemctl --user enable $home/boot/bulkhead-own.service

cat >$units/look.service <<X
[Unit]
After=$name
[Service]
Type=oneshot
TimeoutStartSec=infinity
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
state() { sh $1/as_worker.sh systemctl --user is-active bulkhead-own 2>&1; }
for _ in \$(seq 200); do
    case \$(state) in active | failed) break ;; esac
    sleep 5
done
echo "own: \$(state)"
sh $1/as_worker.sh $3 ps
ps -o user= -C qemu-system-x86_64 | sed 's/^/who runs it: /'
systemctl stop user@1500.service
echo "own manager: \$(systemctl is-active user@1500.service)"
cat $1/own.log
cat /proc/[0-9]*/comm | sed 's/^/left: /'
echo end
kill -s RTMIN+14 1
X
export SYSTEMD_UNIT_PATH=$units container=other
systemctl enable "$name" look.service
exec unshare --pid --fork --mount --mount-proc sh -c 'mount -t tmpfs none /run && mkdir /run/systemd &&
    exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --show-status=no </dev/null'
