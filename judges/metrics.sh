#!/usr/bin/env bash
# The metrics of a running array with a load, held against Prometheus' own tool: the text of a scrape, the rules and
# their tests; every metric that the dashboard and the rules name is in the scrape, every query is accepted by
# Prometheus' parser, and the time of requests is told for every stage that they passed. A second array has TLS: the end of its
# certificate is as openssl reads it from the connection.
#   judges/metrics.sh    (in judges/with_masu.sh, with a cache: MASU_URL, MASU_DATA, MASU)
# One line per step; exit status 0 when every step passed.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly WORK=target/judges/metrics
readonly RULES=contrib/prometheus/masu.rules.yml DASHBOARD=contrib/grafana/masu.json
for tool in promtool python3 curl openssl; do
  command -v "$tool" >/dev/null || { echo "metrics: skipped: $tool is missing (Debian packages prometheus, python3, curl, openssl)"; exit 0; }
done
: "${MASU_URL:?}" "${MASU_DATA:?}" "${MASU:?}"
rm -rf "$WORK"; mkdir -p "$WORK"
# shellcheck source=judges/steps.sh
. judges/steps.sh
# shellcheck source=judges/ports.sh
. judges/ports.sh
masu() { "$MASU" "$@" --data "$MASU_DATA"; }
scrape() { curl -sS --fail --unix-socket "$MASU_DATA/api.sock" http://masu/metrics >"$WORK/scrape"; }
# promtool prints findings, and says so by its status for some of them only.
check_metrics() { promtool check metrics <"$WORK/scrape" >"$WORK/findings" 2>&1; cat "$WORK/findings"; [ ! -s "$WORK/findings" ]; }
# How many operations of a stage were measured, reads and writes.
measured() { awk -v s="stage=\"$1\"" 'index($0, "masu_stage_latency_seconds_count") && index($0, s) { n += $2 } END { print n + 0 }' "$WORK/scrape"; }
stage_is_told() { [ "$(measured "$1")" -gt 0 ]; }
names_exist() { python3 judges/metrics_names.py "$WORK/scrape" "$RULES" "$DASHBOARD"; }
queries_parse() {
  python3 judges/metrics_names.py --queries "$DASHBOARD" >"$WORK/queries.yml" && promtool check rules "$WORK/queries.yml"
}
with_tls=""
# shellcheck disable=SC2329 # it is reached through the trap
stop_tls() { [ -z "$with_tls" ] || { kill -TERM "$with_tls" && wait "$with_tls"; } 2>/dev/null || true; }
trap stop_tls EXIT
# The end of the certificate that a port shows, and the one that the array tells, in seconds since 1970.
certificate_end() {
  local data=$WORK/tls tls port shown end told
  mkdir -p "$data"; tls=$(free_port); port=$(free_port)
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 20 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$WORK/key.pem" -out "$WORK/cert.pem" || return 1
  "$MASU" serve --data "$data" --listen "127.0.0.1:$port" --api "127.0.0.1:$tls" --api-cert "$WORK/cert.pem" --api-key "$WORK/key.pem" \
    >"$WORK/tls.log" 2>&1 & with_tls=$!
  "$MASU" wait --timeout 20s --data "$data" && curl -sS --fail --cacert "$WORK/cert.pem" "https://localhost:$tls/healthz" \
    && curl -sS --fail --unix-socket "$data/api.sock" http://masu/metrics >"$WORK/tls_scrape" || return 1
  shown=$(openssl s_client -connect "127.0.0.1:$tls" </dev/null 2>/dev/null | openssl x509 -noout -enddate) || return 1
  end=$(date -u -d "${shown#notAfter=}" +%s) || return 1
  told=$(awk '$1 == "masu_api_certificate_end_timestamp_seconds" { printf "%d", $2 }' "$WORK/tls_scrape")
  echo "openssl: $end; masu: $told"
  [ -n "$told" ] && [ "$told" = "$end" ] && grep -q 'masu_trouble{severity="warning",object="api",kind="certificate"} 1' "$WORK/tls_scrape"
}
load() { "$MASU" load "$MASU_URL" --pattern "$1" --size 4KiB --depth 8 --seconds 2 --warm-up-seconds 0 --destroy-data; }

masu policy create gold --minimum 100 --maximum 100000 >/dev/null
masu policy attach gold v0 >/dev/null
step "a load of reads" load randread
step "a load of writes" load randwrite
step "a scrape" scrape
step "promtool check metrics" check_metrics
step "promtool check rules" promtool check rules "$RULES"
step "promtool test rules" promtool test rules contrib/prometheus/masu.rules.test.yml
step "every metric of the rules and the dashboard is in the scrape" names_exist
step "every query of the dashboard is PromQL" queries_parse
step "the end of the certificate is as openssl reads it" certificate_end
for stage in port lu qos cache pool raid drive; do step "the stage $stage is told ($(measured "$stage"))" stage_is_told "$stage"; done
echo "metrics: $passed passed, $failed failed; $(grep -vc '^#' "$WORK/scrape") series"
[ "$failed" = 0 ]
