#!/bin/bash
# Boots a systemd of its own in namespaces: see tests/support/systemd_lab.py, which calls it.
# LAB: an empty directory; LAB_SHARE: a directory seen inside at its own path; LAB_OPEN: files and directories that
# every user inside must reach; LAB_USER, LAB_UID: a person inside; LAB_BOUND: capabilities that are dropped.
# All of this machine is seen through an overlay in memory: what is written inside is gone with it.
set -euo pipefail

if [ "${1:-}" != inside ]; then # with mounts of our own; still among this machine's processes
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 lab "$LAB"
  mkdir "$LAB/cgroup" "$LAB/upper" "$LAB/work" "$LAB/root"
  mount -t cgroup2 none "$LAB/cgroup"
  mkdir "$LAB/cgroup/pairproxy-lab-$$"
  echo $$ >"$LAB/cgroup/pairproxy-lab-$$/cgroup.procs"
  umount "$LAB/cgroup"
  exec unshare --pid --fork --kill-child=KILL --cgroup --uts --ipc --net "$BASH" "$0" inside
fi

root=$LAB/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$LAB/upper,workdir=$LAB/work" "$root"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
number=0
for path in $LAB_OPEN; do
  number=$((number + 1))
  case $path in
    /tmp/* | /run/*) # a checkout there is not in the empty directories of the same name
      mkdir -p "$root$path" "$LAB/upper.$number" "$LAB/work.$number"
      mount -t overlay overlay -o "lowerdir=$path,upperdir=$LAB/upper.$number,workdir=$LAB/work.$number" "$root$path"
      ;;
    *) # those on disks of their own are not in the overlay of /
      if [ "$(stat -c %d "$path")" != "$(stat -c %d /)" ]; then
        mount --bind -o ro "$path" "$root$path"
      fi
      ;;
  esac
  while [ "$path" != / ]; do
    chmod o+x "$root$path" 2>/dev/null || true
    path=$(dirname "$path")
  done
done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys" # this machine's kernel is not for setting
mount -o remount,bind,ro "$root/proc/sys"
[ ! -e "$root/proc/sysrq-trigger" ] || mount --bind /dev/null "$root/proc/sysrq-trigger"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 dev "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
  read -r name major minor <<<"$node"
  mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s null "$root/dev/console"
mkdir -p "$root$LAB_SHARE"
mount --bind "$LAB_SHARE" "$root$LAB_SHARE"

# Nothing that this machine starts is started inside; what would set its kernel or disks is not there.
rm -rf "$root"/etc/systemd/system/* "$root"/etc/systemd/user/* "$root"/lib/systemd/system/*.target.wants \
  "$root"/{etc,lib}/systemd/system-generators "$root"/var/log/journal "$root"/var/lib/systemd/linger
: >"$root/etc/fstab"
echo 127.0.0.1 localhost >"$root/etc/hosts"
echo nameserver 127.0.0.1 >"$root/run/resolv.conf"
mount --bind "$root/run/resolv.conf" "$(realpath -m "$root/etc/resolv.conf")" 2>/dev/null || true
cat >"$root/etc/systemd/journald.conf" <<'END'
[Journal]
Storage=volatile
ReadKMsg=no
ForwardToSyslog=no
RateLimitIntervalSec=0
END
cat >"$root/etc/systemd/system/lab.target" <<'END'
[Unit]
Description=What the tests need
Wants=systemd-journald.service dbus.socket systemd-logind.service
After=systemd-journald.service dbus.socket
AllowIsolate=yes
END
sed -i "/^[^:]*:[^:]*:$LAB_UID:/d" "$root/etc/passwd"
echo "$LAB_USER:x:$LAB_UID:$LAB_UID:A person:/home/$LAB_USER:/bin/bash" >>"$root/etc/passwd"
echo "$LAB_USER:x:$LAB_UID:" >>"$root/etc/group"
install -d -m 700 -o "$LAB_UID" -g "$LAB_UID" "$root/home/$LAB_USER"
printf '%s\n' "account required pam_permit.so" "session required pam_permit.so" \
  "session optional pam_systemd.so" >"$root/etc/pam.d/systemd-user" # Debian's asks for a password's age
rm -f "$root/etc/hostname"
echo lab >"$root/etc/hostname"

cd "$root"
mkdir -p run/old
pivot_root . run/old
umount -l /run/old
rmdir /run/old
exec env -i container=pairproxy-lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set "$LAB_BOUND" /lib/systemd/systemd --system --unit=lab.target --show-status=no
