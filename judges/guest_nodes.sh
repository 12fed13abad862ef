# shellcheck shell=bash
# Two nodes of one array whose host is a guest (judges/guest_load.sh): sourced by the judges of fail-over. They set OUT (a directory),
# TARGET, masu (the binary) and kind (`rbd`: RBD images with etcd, both real and started here; else file drives with a registry
# directory), and call `begin_nodes`. Where nodes have a network of their own: `home` is this machine's address in it, `address` those
# of the nodes, and `at_node` runs a command there.
# shellcheck disable=SC2034,SC2154 # of who sources this, and for it
# shellcheck disable=SC2317 # stop_nodes is reached through the trap

etcd_pid="" home=127.0.0.1 registry=""
declare -A node_pid address=([n1]=127.0.0.1 [n2]=127.0.0.1)
fail() { echo "$judge: FAIL $*; the guest's console is $OUT/console" >&2; exit 1; }
# In the background: in place of the shell, whose number is the command's then.
at_node() { shift; exec "$@"; }

stop_nodes() {
  trap - EXIT INT TERM
  local pid
  for pid in $guest "${node_pid[@]}" $etcd_pid; do { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true; done
  [ "$kind" != rbd ] || judges/ceph.sh stop "$OUT/ceph"
  rm -rf "$OUT"/{n1,n2,registry,etcd,ceph,d0.img}
}

# What the nodes stand on, and their declaration. Where Ceph or etcd is not installed the judge ends with 0, and says so.
begin_nodes() {
  rm -rf "$OUT"; mkdir -p "$OUT"
  if [ "$kind" = rbd ]; then
    command -v etcd >/dev/null || { echo "$judge: skipped: etcd is not installed; run judges/setup.sh"; exit 0; }
    local rc=0
    judges/ceph.sh start "$OUT/ceph" || rc=$?
    [ "$rc" != 77 ] || exit 0
    [ "$rc" = 0 ] || exit "$rc"
  fi
  trap stop_nodes EXIT
  trap 'exit 130' INT TERM
  port[n1]=$(free_port); port[n2]=$((port[n1] + 1))
  local drive; drive=$(printf 'file = "%s"\nsize = "192MiB"' "$OUT/d0.img")
  registry=$OUT/registry
  if [ "$kind" = rbd ]; then
    export CEPH_CONF=$OUT/ceph/ceph.conf
    rbd create vms/cluster --size 192M
    etcd_port=$(free_port)
    begin_etcd
    drive=$(printf 'rbd = "vms/cluster"\nrbd_conf = "%s"' "$CEPH_CONF"); registry=etcd://$home:$etcd_port
  fi
  printf 'target = "%s"\n[[drive]]\nname = "d0"\n%s\n[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n[[pool]]\nname = "p0"\ngroups = ["g0"]\n[[volume]]\nname = "v0"\npool = "p0"\nsize = "64MiB"\n[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0" }\n' \
    "$TARGET" "$drive" >"$OUT/array.toml"
  node n1; until_holds "n1 serves" grep -q 'array: serves' "$OUT/n1.log"
  node n2; until_holds "n2 stands by" stands_by n2
  owner=n1; other=n2
}
# Also again, with what it had.
begin_etcd() {
  local peer=$((etcd_port + 1))
  etcd --name m --data-dir "$OUT/etcd" --listen-client-urls "http://$home:$etcd_port" --advertise-client-urls "http://$home:$etcd_port" \
    --listen-peer-urls "http://$home:$peer" --initial-advertise-peer-urls "http://$home:$peer" \
    --initial-cluster "m=http://$home:$peer" >>"$OUT/etcd.log" 2>&1 & etcd_pid=$!
}
node() {
  at_node "$1" "$masu" serve --node "$1" --listen "${address[$1]}:${port[$1]}" --registry "$registry" --data "$OUT/$1" --config "$OUT/array.toml" >>"$OUT/$1.log" 2>&1 &
  node_pid[$1]=$!
}
# How often a node has begun to serve.
served() { grep -c 'array: serves' "$OUT/$1.log" || true; }
stands_by() { tail -n 3 "$OUT/$1.log" | grep -q 'standby of'; }
more_than() { [ "$(served "$1")" -gt "$2" ]; }
# taken_over COUNT: the other node has begun once more than it had before.
taken_over() { until_holds "$other serves" more_than "$other" "$1"; swap; }
settled() { until_holds "$other stands by" stands_by "$other"; sleep 2; }
# boot_guest HOST HOST: the guest, with a path to the first node and to the second one, which it reaches there.
boot_guest() {
  local tag
  boot "$1:${port[n1]},$2:${port[n2]}"
  for tag in 1 65; do
    grep -qaE "^guest: +[0-9.]+:[0-9]+,$tag " "$OUT/console" || fail "a discovery does not name the portals of both nodes, each with a tag of its own"
  done
}
