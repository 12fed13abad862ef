# The loads of the benchmarks: each prints one figure of a run of SECONDS_EACH against a URL, on CLIENT_CORE. `masu` names the binary.
# shellcheck shell=bash disable=SC2154 # of who sources this
client() { timeout 60 taskset -c "$CLIENT_CORE" "$@"; }
# IOPS of 4 KiB random reads at depth 32, by libiscsi's iscsi-perf: of whole seconds
iscsi_perf() {
  client iscsi-perf -t "$SECONDS_EACH" -m 32 -b 8 -r "$1" | tr '\r' '\n' |
    sed -n 's/^iops average \([0-9]*\) .*/\1/p' | tail -n 1
}
# a figure of the JSON answer of a load: load FIELD OPTION... URL
load() {
  local field=$1
  shift
  client "$masu" load --json --cpu "$CLIENT_CORE" --warm-up-seconds 0.3 --seconds "$SECONDS_EACH" "$@" |
    python3 -c "import json, sys; print(round(json.load(sys.stdin)['$field']))"
}
# IOPS of the same by the laboratory's own initiator
random_read_of() { load iops --pattern randread --depth 32 "$1"; }
# MB/s of 1 MiB at depth 8
sequential_read() { load mb_per_s --pattern seqread --size 1MiB --depth 8 "$1"; }
sequential_write() { load mb_per_s --pattern seqwrite --size 1MiB --depth 8 --destroy-data "$1"; }
