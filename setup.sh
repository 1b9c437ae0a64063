#!/usr/bin/env bash
# Set-up: brings what Bulkhead needs that is missing, and says what it does. Safe to run again; does nothing when all is there.
#
#   ./setup.sh measure      QEMU, an OCI runtime, mke2fs, a C linker, and a guest kernel in the cache folder
#   ./setup.sh test         the same, a second OCI runtime, a browser for the report test, what imports results elsewhere, and tools to compare with
#   ./setup.sh fuzz         nightly Rust and cargo-fuzz
#   ./setup.sh bench-simulator   what measuring needs, and the simulators whose speed ours is compared with
#   ./setup.sh demo         what measuring needs, python3, and the broker of examples/message-switch in the cache folder
#   ./setup.sh crosscheck   what measuring needs, and the well-known tools that our probes are compared with
#
# Packages are installed on Debian and its descendants, as root or with a sudo that asks for no password. Elsewhere, or without
# those rights, it names what is missing and goes on: Bulkhead measures what is there.
set -euo pipefail
goal=${1:-measure}
cache=${BULKHEAD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead}

# What lands in the cache folder is booted later: nobody else may write there.
umask 022

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

case $goal in
    measure | test | demo | crosscheck | bench-simulator) ;;
    fuzz)
        # Following the coverage needs flags that only a nightly compiler takes.
        if ! rustup toolchain list | grep -q '^nightly'; then say "installing nightly Rust"; rustup toolchain install nightly --profile minimal; fi
        if ! cargo fuzz --version >/dev/null 2>&1; then say "installing cargo-fuzz"; cargo install cargo-fuzz --locked; fi
        exit 0 ;;
    *) say "unknown goal \"$goal\": wanted measure, test, demo, fuzz, crosscheck or bench-simulator"; exit 2 ;;
esac

case $(uname -m) in
    x86_64) qemu=qemu-system-x86_64 qemu_package=qemu-system-x86 ;;
    aarch64) qemu=qemu-system-aarch64 qemu_package=qemu-system-arm ;;
    *) say "$(uname -m) is not supported: wanted x86_64 or aarch64"; exit 3 ;;
esac

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if have sudo && sudo -n true 2>/dev/null; then as_root=(sudo -n); else as_root=(false); fi
fi

# command -> package that holds it
wanted=("cc gcc" "$qemu $qemu_package" "mke2fs e2fsprogs")
have crun || have runc || have youki || have runsc || wanted+=("crun crun")
# crun refuses hosts with cgroups of version 1 where version 2 holds controllers, too; runc runs there.
hybrid=/sys/fs/cgroup/unified/cgroup.controllers
if [ -r $hybrid ] && grep -q . $hybrid; then wanted+=("runc runc"); fi
if [ "$goal" = test ]; then
    wanted+=("crun crun" "runc runc" "chromium chromium" "oslat rt-tests" "ip iproute2" "ssh openssh-client" "losetup mount" "addpart util-linux" "virt-xml-validate libvirt-clients" "xmllint libxml2-utils" "skopeo skopeo")
    # The MPI suite's compiler and launcher (its library brings libfabric), and programs to run over it; the plain names may be
    # another MPI's.
    wanted+=("make make" "orterun openmpi-bin" "mpicc.openmpi libopenmpi-dev" "gfortran gfortran" "hpcc hpcc")
fi
if [ "$goal" = demo ]; then wanted+=("/usr/bin/python3 python3"); fi
if [ "$goal" = crosscheck ]; then
    # hpcc is started through MPI and takes its BLAS from whatever provides libblas.so.3; OpenBLAS is the quickest.
    wanted+=("fio fio" "iperf3 iperf3" "sockperf sockperf" "cyclictest rt-tests" "stress-ng stress-ng" "hpcc hpcc" "mpirun openmpi-bin" "curl curl" "taskset util-linux")
fi

if [ "$goal" = bench-simulator ]; then
    wanted+=("c++ g++" "python3 python3" "simgrid_update_xml libsimgrid-dev")
fi

missing=()
for entry in "${wanted[@]}"; do
    read -r tool package <<<"$entry"
    PATH=$PATH:/usr/sbin:/sbin have "$tool" || missing+=("$package")
done
# A static binary needs the C library's archive, which no command gives away.
if have cc && [ ! -e "$(cc -print-file-name=libc.a)" ]; then missing+=(libc6-dev); fi
if ! have cc; then missing+=(libc6-dev); fi
# Headers and libraries bring no commands.
if [ "$goal" = test ]; then
    [ -e /usr/include/rdma/fabric.h ] || missing+=(libfabric-dev)
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    perl -MTAP::Parser -e 1 2>/dev/null || missing+=(perl)
    case $(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null) in *libfabric.so.1*) ;; *) missing+=(libfabric1) ;; esac
fi
if [ "$goal" = crosscheck ]; then
    case $(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null) in *libopenblas*) ;; *) missing+=(libopenblas0) ;; esac
fi

refreshed=no
refresh() {
    [ $refreshed = yes ] && return 0
    refreshed=yes
    say "refreshing the package lists"
    # One list that cannot be had (a vendor's, say) does not matter as long as the packages come.
    "${as_root[@]}" apt-get update -qq >/dev/null 2>&1 || say "some package lists could not be refreshed; going on"
}

if [ ${#missing[@]} -gt 0 ]; then
    if ! have apt-get; then
        say "missing here: ${missing[*]} (Debian's package names); install them with this system's package manager"
    elif [ "${as_root[*]:-}" = false ]; then
        say "missing here: ${missing[*]}; as root: apt-get install --no-install-recommends ${missing[*]}"
    else
        refresh
        say "installing ${missing[*]}"
        if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then
            say "apt-get install ${missing[*]} failed (its message is above)"
            exit 3
        fi
    fi
fi

if ! have cargo; then
    say "missing here: cargo; install Rust 1.90 or newer with rustup (https://rustup.rs)"
    exit 3
fi

# The guest kernel: fetched as a package, unpacked into the cache folder, never installed. The stamp counts up when the
# list of parts below changes, so that an older kernel without them is fetched again.
parts_stamp=3
kernel_here() { compgen -G "$cache/kernel/boot/vmlinu*" >/dev/null; }
kernel_complete() { kernel_here && [ "$(cat "$cache/kernel/parts" 2>/dev/null)" = "$parts_stamp" ]; }
fetch_kernel() {
    local work package image
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" RETURN
    package=linux-image-$(dpkg --print-architecture)
    image=$(apt-cache depends "$package" 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
    if [ -z "$image" ]; then refresh; image=$(apt-cache depends "$package" | awk '/Depends: linux-image-/ { print $2; exit }'); fi
    [ -n "$image" ] || { say "no package $package is known here"; return 1; }
    say "fetching $image for the guests (about 70 MB) into $cache/kernel"
    if ! (cd "$work" && apt-get download -qq "$image" >/dev/null 2>&1); then
        refresh
        image=$(apt-cache depends "$package" | awk '/Depends: linux-image-/ { print $2; exit }')
        (cd "$work" && apt-get download -qq "$image" >/dev/null 2>&1) || { say "$image could not be fetched"; return 1; }
    fi
    mkdir "$work/tree"
    dpkg-deb -x "$work"/*.deb "$work/tree"
    # Guests need file systems, virtio and what these depend on; the rest of the modules is 300 MB of hardware.
    local from to release part
    for from in "$work"/tree/lib/modules/*/; do
        release=$(basename "$from")
        to="$work/kernel/lib/modules/$release"
        mkdir -p "$to/kernel/drivers" "$to/kernel/net" "$work/kernel/boot"
        for part in arch crypto lib fs/ext4 fs/jbd2 fs/mbcache.ko fs/9p fs/netfs fs/fscache fs/overlayfs fs/fuse drivers/virtio \
            drivers/block drivers/char drivers/net/virtio_net.ko drivers/net/net_failover.ko drivers/net/bonding net/tls drivers/net/ethernet/intel/e1000 \
            drivers/net/ethernet/realtek drivers/net/mii.ko net/9p net/core \
            drivers/ata/libata.ko drivers/ata/libahci.ko drivers/ata/ahci.ko drivers/scsi/scsi_mod.ko \
            drivers/scsi/scsi_common.ko drivers/scsi/sd_mod.ko drivers/nvme/common drivers/nvme/host/nvme-core.ko \
            drivers/nvme/host/nvme.ko block/t10-pi.ko; do
            if [ -e "$from/kernel/$part" ]; then
                mkdir -p "$(dirname "$to/kernel/$part")"
                cp -a "$from/kernel/$part" "$to/kernel/$part"
            fi
        done
        cp -a "$from"/modules.* "$to/"
        cp -a "$work/tree/boot/vmlinuz-$release" "$work/kernel/boot/"
    done
    echo "$parts_stamp" >"$work/kernel/parts"
    rm -rf "$cache/kernel"
    mv "$work/kernel" "$cache/kernel"
}

# A real sshd for the tests.
sshd_here() { [ -x /usr/sbin/sshd ] || [ -x "$cache/sshd/usr/sbin/sshd" ]; }
# Packages that are unpacked into the cache folder and never installed, so that no service is started on this machine.
unpack() {
    local package=$1 to=$cache/$2 work
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" RETURN
    say "fetching $package into $to"
    if ! (cd "$work" && apt-get download -qq "$package" >/dev/null 2>&1); then
        refresh
        (cd "$work" && apt-get download -qq "$package" >/dev/null 2>&1) || { say "$package could not be fetched"; return 1; }
    fi
    dpkg-deb -x "$work"/*.deb "$work/tree"
    rm -rf "$to"
    mv "$work/tree" "$to"
}
fetch_sshd() {
    unpack openssh-server sshd || return 1
    local library
    # sshd gives up its rights as this user, which its package would have made.
    if ! getent passwd sshd >/dev/null && [ "${as_root[*]:-}" != false ]; then
        "${as_root[@]}" useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
    fi
    for library in libwrap0; do
        if ! dpkg -s $library >/dev/null 2>&1 && [ "${as_root[*]:-}" != false ]; then
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $library >/dev/null
        fi
    done
}
# A broker for the example.
if [ "$goal" = demo ] && ! have beanstalkd && [ ! -x "$cache/beanstalkd/usr/bin/beanstalkd" ]; then
    mkdir -p "$cache"
    { have apt-get && have dpkg-deb && unpack beanstalkd beanstalkd; } || { say "missing here: beanstalkd"; exit 3; }
fi
if [ "$goal" = test ] && ! sshd_here && have apt-get && have dpkg-deb; then
    mkdir -p "$cache"
    fetch_sshd || say "no sshd: the tests of the platform ssh are left out"
fi

# A registry of images; as a package it would be a service that listens everywhere.
if [ "$goal" = test ] && [ ! -x "$cache/registry/usr/bin/docker-registry" ] && have apt-get && have dpkg-deb; then
    mkdir -p "$cache"
    unpack docker-registry registry || say "no registry: the test that fetches an image from one is left out"
fi

# What imports a verification's results elsewhere, for the tests: in a folder of its own.
# Beside the cache folder, in which links are refused.
importers=$cache-importers
importers_pins=(strictdoc==0.30.0 sphinx==9.0.4 sphinx-needs==9.1.0 sphinx-test-reports==3.0.1)
if [ "$goal" = test ] && [ "$(cat "$importers/pins" 2>/dev/null)" != "${importers_pins[*]}" ]; then
    say "installing ${importers_pins[*]} into $importers"
    rm -rf "$importers"
    if python3 -m venv "$importers" && "$importers/bin/pip" install --quiet --disable-pip-version-check "${importers_pins[@]}"; then
        echo "${importers_pins[*]}" >"$importers/pins"
    else
        say "they could not be installed: the test of importers is left out"
    fi
fi

mkdir -p "$cache"
if ! kernel_complete; then
    if have apt-get && have dpkg-deb; then
        if ! fetch_kernel; then
            if kernel_here; then
                say "the guest kernel from an earlier set-up stays; it lacks drivers (SATA, NVMe) that some experiments need"
            else
                say "no guest kernel: VMs use the host's own, or name one with --kernel"
            fi
        fi
    elif compgen -G "/boot/vmlinu*" >/dev/null; then
        say "guests will use the host's own kernel in /boot"
    else
        say "no guest kernel: VMs need one named with --kernel (a Linux bzImage or vmlinux with its modules beside it)"
    fi
fi
# Whoever looks for corruption of files; no package of Debian has it.
if [ "$goal" = crosscheck ] && [ ! -x "$cache/tools/bin/fsx" ]; then
    say "building fsx into $cache/tools"
    cargo install --quiet --locked --version 0.3.2 --root "$cache/tools" fsx || say "fsx could not be built: tests/files_stress.rs needs it"
fi
# lmbench's lat_ctx, which the switch probe is compared with; its package is none of Debian's main archive.
if [ "$goal" = crosscheck ] && [ ! -x "$cache/tools/bin/lat_ctx" ]; then
    say "fetching lat_ctx into $cache/tools"
    fetched=$(mktemp -d)
    lmbench=http://deb.debian.org/debian/pool/non-free/l/lmbench/lmbench_3.0-a9+debian.1-6_amd64.deb
    if curl -fsS -m 120 -o "$fetched/lmbench.deb" "$lmbench" &&
        echo "735df59369215cee41c82c9f18aa9153f3cae106f0604be8a0cc17c18c73f51d  $fetched/lmbench.deb" | sha256sum --check --quiet &&
        dpkg-deb -x "$fetched/lmbench.deb" "$fetched"; then
        install -D -t "$cache/tools/bin" "$fetched/usr/lib/lmbench/bin/x86_64-linux-gnu/lat_ctx"
    else
        say "lat_ctx could not be fetched: the crosscheck \"switching\" needs it"
    fi
    rm -rf "$fetched"
fi
if kernel_here; then say "guest kernel: $(ls "$cache/kernel/boot" | tail -n 1), in $cache/kernel"; fi
say "ready for \"make $goal\""
