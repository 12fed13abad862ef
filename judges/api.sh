#!/usr/bin/env bash
# The API of a running array, whose LUs do not matter: its description is the one that is checked in; schemathesis tries
# every operation with examples, limits, random requests and in sequences; and errors, tags, pages, idempotency keys,
# jobs, streams and health are what docs/api.md says.
#   judges/api.sh    (no array of its own around it: it starts one with a port for the API)
# One line per step; exit status 0 when every step passed.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly WORK=target/judges/api VENV=target/judges/schemathesis SEED=${SEED:-1}
readonly TOKEN=a-token-of-the-judge
for tool in python3 curl; do
  command -v "$tool" >/dev/null || { echo "api: skipped: $tool is missing"; exit 0; }
done
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "api: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/ports.sh
. judges/ports.sh
rm -rf "$WORK"; mkdir -p "$WORK/data"
pid=""
# shellcheck disable=SC2317 # reached through the trap
stop() {
  local one
  for one in "$pid" "$with_tls"; do [ -z "$one" ] || { kill -TERM "$one" 2>/dev/null && wait "$one" 2>/dev/null; } || true; done
  rm -rf "$WORK/data" "$WORK/tls"
}
with_tls=""
trap stop EXIT
port=$(free_port); iscsi=$(free_port)
cat >"$WORK/array.toml" <<END
[[portal]]
listen = "127.0.0.1:$iscsi"
[[drive]]
name = "d0"
file = "d0.img"
size = "1GiB"
[[group]]
name = "g0"
level = "raid0"
drives = ["d0"]
[[pool]]
name = "p0"
groups = ["g0"]
END
MASU_TOKEN=$TOKEN "$masu" serve --data "$WORK/data" --config "$WORK/array.toml" --api "127.0.0.1:$port" >"$WORK/log" 2>&1 &
pid=$!
waited=0
until curl -sf "http://127.0.0.1:$port/readyz" >/dev/null; do
  if ! kill -0 "$pid" 2>/dev/null || [ "$waited" -ge 200 ]; then echo "api: the array did not start: $(tail -n 1 "$WORK/log")" >&2; exit 2; fi
  sleep 0.1; waited=$((waited + 1))
done
# shellcheck source=judges/steps.sh
. judges/steps.sh
# ask METHOD PATH [CURL OPTIONS]: prints the status, then headers and body into files.
ask() {
  local method=$1 path=$2; shift 2
  curl -sS -X "$method" -D "$WORK/headers" -o "$WORK/body" -w '%{http_code}' -H "Authorization: Bearer $TOKEN" "$@" "http://127.0.0.1:$port$path"
}
send() { local method=$1 path=$2 body=$3; shift 3; ask "$method" "$path" -H 'Content-Type: application/json' -d "$body" "$@"; }
# is STATUS CODE COMMAND...: the answer has this status and, if it is a problem, this code.
is() {
  local status=$1 code=$2 got; shift 2
  got=$("$@")
  [ "$got" = "$status" ] || { echo "status $got in place of $status: $(cat "$WORK/body")"; return 1; }
  [ -z "$code" ] || { grep -qi '^content-type: application/problem+json' "$WORK/headers" && grep -q "\"code\":\"$code\"" "$WORK/body"; } ||
    { echo "no problem $code: $(cat "$WORK/headers" "$WORK/body")"; return 1; }
}
tag() { sed -n 's/^[Ee][Tt]ag: \([^\r]*\).*/\1/p' "$WORK/headers"; }
described() { is 200 "" ask GET /openapi.json && python3 -c 'import json,sys; sys.exit(json.load(open(sys.argv[1])) != json.load(open("docs/openapi.json")))' "$WORK/body"; }
tagged() {
  is 201 "" send POST /v1/volumes '{"name":"t","size_bytes":1048576}' && is 200 "" ask GET /v1/volumes/t || return 1
  local old; old=$(tag); [ -n "$old" ] || return 1
  is 200 "" send PATCH /v1/volumes/t '{"size_bytes":2097152}' -H "If-Match: $old" &&
    is 412 changed_meanwhile send PATCH /v1/volumes/t '{"size_bytes":3145728}' -H "If-Match: $old" &&
    is 412 changed_meanwhile ask DELETE /v1/volumes/t -H "If-Match: $old" && is 204 "" ask DELETE /v1/volumes/t
}
paged() {
  local n
  for n in 1 2 3; do is 201 "" send POST /v1/policies "{\"name\":\"page$n\",\"terms\":{\"weight\":5}}" || return 1; done
  is 200 "" ask GET '/v1/policies?limit=2&after=page' && grep -q '"next":"page2"' "$WORK/body" &&
    is 200 "" ask GET '/v1/policies?limit=2&after=page2' && grep -q '"next":null' "$WORK/body" || return 1
  for n in 1 2 3; do is 204 "" ask DELETE "/v1/policies/page$n" || return 1; done
}
once() {
  local body='{"name":"once","size_bytes":1048576}'
  is 201 "" send POST /v1/volumes "$body" -H 'Idempotency-Key: request-1' && is 201 "" send POST /v1/volumes "$body" -H 'Idempotency-Key: request-1' &&
    is 409 name_taken send POST /v1/volumes "$body" && is 422 idempotency_key send POST /v1/volumes '{"name":"other","size_bytes":1048576}' -H 'Idempotency-Key: request-1'
}
works() { is 202 "" send POST /v1/jobs '{"kind":"reclaim","object":"once"}' && grep -qi '^location: /v1/jobs/reclaim:once' "$WORK/headers"; }
streamed() { is 200 "" ask GET '/v1/counters/stream?seconds=1' && grep -q '^event: counters' "$WORK/body" && is 200 "" ask GET '/v1/events/stream?seconds=1&after=0' && grep -q '^event: event' "$WORK/body"; }
errors() {
  is 401 token curl -sS -D "$WORK/headers" -o "$WORK/body" -w '%{http_code}' "http://127.0.0.1:$port/v1/volumes" && grep -qi '^www-authenticate: bearer' "$WORK/headers" &&
    is 404 unknown_path ask GET /v1/nothing && is 404 not_found ask GET /v1/volumes/nothing && is 405 unknown_method ask PUT /v1/volumes && grep -qi '^allow: ' "$WORK/headers" &&
    is 405 unknown_method ask DELETE /v1/nodes/n1 && is 415 media_type ask POST /v1/volumes -d 'x' && is 400 json send POST /v1/volumes '{' &&
    is 422 invalid send POST /v1/volumes '{"name":"x","size_bytes":"big"}' && grep -q '"field":"size_bytes"' "$WORK/body" &&
    is 422 invalid send POST /v1/volumes '{"name":"x","size_bytes":1048576,"pool":"none"}' && grep -q '"field":"pool"' "$WORK/body" &&
    is 400 parameter ask GET '/v1/volumes?limit=0' && is 400 parameter ask GET '/v1/volumes?limit=x' && is 400 parameter ask GET '/v1/volumes?color=red' || return 1
  head -c 100000 /dev/zero | tr '\0' ' ' >"$WORK/large"
  is 413 too_large ask POST /v1/volumes -H 'Content-Type: application/json' --data-binary "@$WORK/large"
}
# Who may do what.
token() { "$masu" token create "$1" --role "$1" --expires 1h --data "$WORK/data" 2>/dev/null; }
as() { local by=$1; shift; curl -sS -D "$WORK/headers" -o "$WORK/body" -w '%{http_code}' -H "Authorization: Bearer $by" -H 'Content-Type: application/json' "$@"; }
roles() {
  local viewer operator admin url=http://127.0.0.1:$port/v1 host='{"name":"judged","initiator":"iqn.2026-11.net.example:judged"}'
  viewer=$(token viewer) && operator=$(token operator) && admin=$(token admin) || return 1
  is 200 "" as "$viewer" "$url/volumes" && is 403 role as "$viewer" "$url/config" && is 403 role as "$viewer" -X DELETE "$url/volumes/once" &&
    is 404 unknown_path as "$viewer" "$url/%63onfig" || return 1
  is 201 "" as "$operator" "$url/volumes" -d '{"name":"by-operator","pool":"p0","size_bytes":1048576}' && is 403 role as "$operator" "$url/hosts" -d "$host" &&
    is 403 role as "$operator" "$url/change" -d '{"change":"unmap","host":"h","volume":"v"}' && is 403 role as "$operator" "$url/tokens" || return 1
  is 201 "" as "$admin" "$url/hosts" -d "$host" && is 200 "" as "$admin" "$url/tokens" && ! grep -q masu_ "$WORK/body" &&
    is 204 "" as "$admin" -X DELETE "$url/tokens/viewer" && is 401 token as "$viewer" "$url/volumes"
}
# At the end this address has guessed too often: named tokens go on, the one that a person chose does not.
guesses() {
  local url=http://127.0.0.1:$port/v1 operator n
  operator=$("$masu" token create named --role operator --expires 1h --data "$WORK/data" 2>/dev/null) || return 1
  for n in {1..30}; do as "guess-$n" "$url/volumes" >"$WORK/status"; done
  [ "$(cat "$WORK/status")" = 429 ] && grep -qi '^retry-after: [0-9]' "$WORK/headers" && is 429 too_many ask GET /v1/volumes && is 200 "" as "$operator" "$url/volumes"
}
# TLS, as curl and openssl see it: the certificate that is made, one that takes its place while the array runs, and silent connections.
encrypted() {
  local tls url token own=$WORK/tls/api.cert.pem n fds=() fd
  tls=$(free_port); url=https://localhost:$tls
  "$masu" serve --data "$WORK/tls" --listen "127.0.0.1:$(free_port)" --api "0.0.0.0:$tls" >"$WORK/tls.log" 2>&1 & with_tls=$!
  "$masu" wait --timeout 20s --data "$WORK/tls" && token=$("$masu" token create t --role viewer --data "$WORK/tls" 2>/dev/null) || return 1
  grep -q "SHA-256 $(openssl x509 -in "$own" -noout -fingerprint -sha256 | sed 's/.*=//; s/://g' | tr A-F a-f)" "$WORK/tls.log" || { echo "another fingerprint than openssl's"; return 1; }
  is 200 "" as "$token" --cacert "$own" "$url/v1/volumes" && is 401 token as x --cacert "$own" "$url/v1/volumes" || return 1
  if curl -sS "$url/healthz" || curl -sS "http://localhost:$tls/healthz"; then echo "it was answered without a certificate that is known"; return 1; fi
  for n in {1..50}; do exec {fd}<>"/dev/tcp/127.0.0.1/$tls" && fds+=("$fd"); done
  is 200 "" as "$token" --cacert "$own" --max-time 2 "$url/v1/volumes" || return 1
  for fd in "${fds[@]}"; do exec {fd}<&-; done
  cp "$own" "$WORK/old.pem"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost -days 2 \
    -keyout "$WORK/tls/api.key.pem" -out "$own" 2>/dev/null || return 1
  for n in {1..150}; do curl -sf --cacert "$own" "$url/healthz" >/dev/null && break; sleep 0.1; done
  is 200 "" as "$token" --cacert "$own" "$url/v1/volumes" && ! curl -sS --cacert "$WORK/old.pem" "$url/healthz"
}
get_schemathesis() { [ -x "$VENV/bin/schemathesis" ] || { python3 -m venv "$VENV" && "$VENV/bin/pip" install -q 'schemathesis==4.32.5'; }; }
# Streams are left out: they do not end before their time. Events may be asked to wait. It keeps files where it runs. One worker: two take
# keys out of one cache of its own, and one of them ends with a KeyError, now and then. A busy machine needs several times as long.
tried() (
  root=$PWD
  cd "$WORK" && timeout 400 "$root/$VENV/bin/schemathesis" --config-file "$root/judges/schemathesis.toml" run "http://127.0.0.1:$port/openapi.json" \
    -H "Authorization: Bearer $TOKEN" --phases examples,coverage,fuzzing,stateful --max-examples "${EXAMPLES:-5}" --seed "$SEED" \
    --rate-limit 150/s --exclude-path-regex 'stream$' --request-timeout 30 --no-color --workers 1
)
alive() { kill -0 "$pid" && is 200 "" ask GET /healthz && ! grep -q panicked "$WORK/log"; }

step "the description is docs/openapi.json" described
step "each error has its status, its code and its field" errors
step "a tag guards a change" tagged
step "pages follow one another" paged
step "an idempotency key is done once" once
step "a job answers where it is" works
step "events and counters come as streams" streamed
# Before others delete the pool.
step "roles suffice or are refused" roles
if get_schemathesis >"$WORK/pip" 2>&1; then step "schemathesis, seed $SEED" tried; else echo "skip  schemathesis: pip cannot install it: $(tail -n 1 "$WORK/pip")"; fi
grep -E "^ *(Test cases|Operations|Seed|  Tested)|generated|Tested" "$WORK/step" | head -n 8 || true
if command -v openssl >/dev/null; then step "beyond loopback it is encrypted, and takes another certificate" encrypted; else echo "skip  TLS: openssl is missing"; fi
step "guesses end" guesses
step "the array lives" alive
echo "api: $passed passed, $failed failed"
[ "$failed" = 0 ]
