# make help lists what there is. Steps print their name before and their time after.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

STEP := judges/step.sh
# What `verify` and benches measure, and what is delivered.
RELEASE := target/release/masu
# What the judges try: the same code with all assertions and overflow checks, from the build that the tests have, too. The soak tries the release.
MASU ?= target/checked/masu
export MASU
# Records of runs name the commit that they were made with; a build outside of a repository has none.
MASU_COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
ifneq ($(MASU_COMMIT),)
export MASU_COMMIT
endif
WITH := judges/with_masu.sh
# Longer with: make soak SOAK_MINUTES=600
SOAK_MINUTES ?= 60
# How often the array is killed under load; the soak does it 50 times.
KILLS ?= 5
# How often a guest is killed under its write cache, and the array with it; the soak does it 10 times.
CACHE_KILLS ?= 2
FUZZ_SECONDS ?= 5
# So many servers boot from the array at once; the judges' run has two of them.
SERVERS ?= 8
# The first seed of every run; a failure names its own, and is then repeated with it.
SIM_SEED ?= 1
# About a minute on two cores; the soak tries 100,000.
SIM_CRASHES ?= 4000
# So many histories of several nodes; the soak tells 10,000.
SIM_HISTORIES ?= 200
# Of them, so many in one process: what a controller holds when its machine is killed stays in memory, 2 to 6 MB each time.
SIM_CRASHES_PART ?= 4000
SIM_HISTORIES_PART ?= 500
# A workload of so many operations is struck at its persistence points.
SIM_STEPS ?= 100
# At one of so many persistence points; the soak strikes at all.
SIM_ONE_IN ?= 24
GROUPS := stripe mirror mirrors3 mirrors10 parity5x3 parity5x4 parity5x9 parity6x6
BENCH := cargo bench --locked --quiet -p
XTASK := target/checked/xtask
SIM := target/checked/sim
KILL := target/checked/examples/kill
# Those that `make test` runs. They are built with everything else: a selection of their own would build dependencies again.
EXAMPLES := kill lose_a_drive power_cut

WEB_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

.PHONY: verify
verify: tools release ## the main job: every verification in its quick form (needs Rust and Node, no root); ends with one page over the reports, target/verify/index.html
	@$(STEP) "every verification, the quick forms" judges/verdict.sh $(RELEASE) verify all --quick --out target/verify

.PHONY: verify-full
verify-full: tools release guest-diskstress ## every verification whole, diskstress also natively and in a guest; the page is target/verify-full/index.html
	@$(STEP) "every verification" judges/verdict.sh $(RELEASE) verify all --guest target/judges/diskstress --out target/verify-full

.PHONY: guest-diskstress
guest-diskstress: setup
	@$(STEP) "the load as a static binary, and its guest" judges/diskstress/build.sh

.PHONY: diskstress
diskstress: setup ## DiskStress as one static binary, target/judges/diskstress/diskstress: that it is one, and that it runs in a guest
	@$(STEP) "diskstress, static, in a guest" judges/diskstress.sh

.PHONY: setup
setup: ## get what the judges need: other people's clients (Debian packages), a kernel for the guest
	@$(STEP) "setup" judges/setup.sh

.PHONY: setup-ceph
setup-ceph:
	@$(STEP) "setup, with Ceph" judges/setup.sh --ceph

.PHONY: release
release: tools web/dist/report.html ## the report viewer and the release binary
	@$(STEP) "release build" cargo build --release --locked --package masu

# All of one selection of packages: for another one Cargo would build dependencies again with other features. An example among the targets
# brings those of the tests.
.PHONY: build
build: tools web/dist/report.html ## the binaries that tests and judges use, with all assertions
	@$(STEP) "build, with all assertions" cargo build --locked --quiet --profile checked --workspace --bins $(addprefix --example ,$(EXAMPLES))

# Packages are fetched and unpacked while the compiler works. Then two lanes that compute, and one of judges that wait for most of their time.
.PHONY: test
test: tools ## everything, as the continuous integration runs it: 36 minutes on two slow cores
	@judges/side_by_side.sh 2 setup-ceph check-build
	@$(MAKE) --no-print-directory check-scripts build-tests
	@SERVERS=2 CARGO_BUILD_JOBS=1 $(STEP) "tests, judges, fuzzing, simulation" judges/side_by_side.sh 3 judges-that-wait unit-crates fuzz $(filter-out $(WAITING),$(JUDGES)) unit-programs unit-examples sim
	@echo "make test: everything passed"

.PHONY: check
check: check-build check-scripts ## format, lints, documentation, the repository's own rules

.PHONY: check-build
check-build: tools web/dist/report.html
	@$(STEP) "rustfmt" cargo fmt --all --check
	@$(STEP) "rustfmt, fuzz targets" cargo fmt --manifest-path fuzz/Cargo.toml --check
	@$(STEP) "clippy" cargo clippy --profile checked --workspace --all-targets --locked -- --deny warnings
	@$(STEP) "rustdoc" env RUSTDOCFLAGS="--deny warnings" cargo doc --profile checked --workspace --no-deps --locked --quiet
	@$(MAKE) --no-print-directory build
	@$(STEP) "tidy" $(XTASK) tidy

.PHONY: check-scripts
check-scripts:
	@$(STEP) "shell scripts" shellcheck .ci/run packaging/*.sh packaging/debian/p* judges/*.sh judges/guest/*.sh judges/guest/begin judges/guest/init judges/guest/node judges/guest/write_cache judges/guest/growth judges/guest/cluster judges/sanboot/*.sh judges/sanboot/*_init judges/diskstress/*.sh judges/diskstress/init

.PHONY: deny
deny: tools ## advisories, licences, duplicates and sources of all dependencies by cargo-deny (needs the network; tidy checks all but the advisories)
	@command -v cargo-deny >/dev/null || $(STEP) "cargo-deny" cargo install --locked --quiet cargo-deny
	@$(STEP) "cargo deny" cargo deny check

.PHONY: sbom
sbom: build ## the bill of materials of the binary, target/masu.cdx.json (CycloneDX)
	@$(STEP) "bill of materials" $(XTASK) sbom

.PHONY: documents
documents: build ## docs/array_toml.md and docs/array.schema.json, made of the program (tests compare them)
	@$(STEP) "the reference of array.toml" bash -c '$(MASU) config reference > docs/array_toml.md && $(MASU) config schema > docs/array.schema.json'

TESTS := cargo test --profile checked --workspace --locked --quiet
# Many tests wait for processes, clocks or answers: two kinds run at once.
UNIT := unit-crates unit-programs unit-examples
.PHONY: build-tests
build-tests: tools web/dist/report.html
	@$(STEP) "build of the tests" $(TESTS) --lib --bins --tests --no-run

.PHONY: unit $(UNIT)
unit: build-tests ## tests of the workspace and of the report viewer
	@$(STEP) "tests, two kinds at a time" judges/side_by_side.sh 2 $(UNIT)

unit-crates:
	@$(STEP) "tests of the crates" $(TESTS) --lib --bins

# They wait most of their time, for leases and for processes: twice as many at once as there are processors.
unit-programs:
	@RUST_TEST_THREADS=4 $(STEP) "tests of programs and of crates from outside" $(TESTS) --test '*'

unit-examples: build
	@$(STEP) "documentation tests" $(TESTS) --doc
	@$(STEP) "example: a group loses a drive" target/checked/examples/lose_a_drive
	@$(STEP) "example: a pool after a power cut" target/checked/examples/power_cut
	@$(STEP) "web tests" npm --prefix web test --silent

# Two at a time, for most of them wait for others' machines; what each says comes when it has ended.
JUDGES := fileserver sanboot write-cache growth guest report conformance conformance-nodes kill hostile vdisk qemu attach diskstress readme package newcomer metrics traces api cluster-short
# Those that use less than a quarter of a processor: the suite's pauses, leases that expire.
WAITING := conformance cluster-short conformance-nodes
.PHONY: judges-that-wait
judges-that-wait:
	@$(MAKE) --no-print-directory --keep-going $(WAITING)

.PHONY: judges
judges: setup build ## other people's clients against the array, servers that boot from it, its sudden end, and those who mean it ill
	@SERVERS=2 $(STEP) "judges, two at a time" judges/side_by_side.sh 2 $(JUDGES)

.PHONY: conformance
conformance: build ## iscsi-test-cu, test by test, skips counted as skips
	@$(STEP) "iscsi-test-cu" $(WITH) bash -c 'judges/conformance.sh --second-path "$$MASU_URL_2" --lu "GetLBAStatus.UnmapSingle=$$MASU_URL_512" --lu "ReadOnly.*=$$MASU_URL_RO" "$$MASU_URL"'

.PHONY: conformance-nodes
# short: what is about paths; empty: all tests through the standby, too.
NODES_FORM ?= short
conformance-nodes: build ## iscsi-test-cu over two nodes: multipath, reservations and COMPARE AND WRITE through the owner and the standby
	@$(STEP) "iscsi-test-cu over two nodes" judges/conformance_nodes.sh $(NODES_FORM)

.PHONY: qemu
qemu: build ## qemu-io and qemu-img over iscsi://, without and with CHAP
	@$(STEP) "qemu" $(WITH) bash -c 'judges/qemu.sh "$$MASU_URL"'
	@$(STEP) "qemu with CHAP" $(WITH) --chap bash -c 'judges/qemu.sh --chap "$$MASU_URL"'

.PHONY: vdisk
vdisk: build ## VHD and VHDX against QEMU and libvhdi, both ways; an image served over NBD
	@$(STEP) "vdisk" judges/vdisk.sh

.PHONY: attach
attach: build ## images and LUs attached as files: ext4 on loop devices, QEMU (needs root, FUSE and loop devices, else skipped)
	@$(STEP) "attach" judges/attach.sh

.PHONY: readme
readme: build ## every command of README.md as typed, in order, on a fresh directory
	@$(STEP) "README" judges/readme.sh

.PHONY: package
package: build ## the Debian package in a clean root: installed, served by the unit's command and user, upgraded, removed, purged (needs root, else skipped)
	@$(STEP) "systemd unit" judges/systemd.sh
	@$(STEP) "Debian package" judges/package.sh

.PHONY: newcomer
newcomer: setup build ## from the package to a mounted disk in a guest, as README.md says, typed as it stands (needs root, else skipped)
	@$(STEP) "newcomer" judges/newcomer.sh

.PHONY: static
static: tools web/dist/report.html ## the release binary without shared libraries, for any Linux: target/<machine>-unknown-linux-musl/release/masu, judged
	@$(STEP) "static release build" packaging/static.sh
	@$(STEP) "static binary" judges/static.sh

.PHONY: dist
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
dist: tools release static ## what is published, in target/dist: the Debian package, an archive, one with a static binary, an OCI image layout, the bill of materials, checksums
	@$(STEP) "tools" cargo build --locked --quiet --profile checked -p xtask
	@$(STEP) "packages" packaging/dist.sh

.PHONY: guest
guest: build ## a Linux kernel initiator in a guest: CHAP, digests, file system, trim, fsck
	@$(STEP) "Linux guest" $(WITH) --chap bash -c 'judges/guest/run.sh "$$MASU_PORT" "$$MASU_TARGET" $$MASU_LOGIN'

.PHONY: sanboot
sanboot: setup build ## SERVERS (8) servers without disks boot Linux from the array at once; a disk goes to another server and boots there
	@$(STEP) "$(SERVERS) servers boot" $(WITH) --empty judges/sanboot.sh $(SERVERS)

.PHONY: sanboot-record
sanboot-record: setup build ## records what a server reads while it boots from the array: a trace for `[boot]` of scenarios/sanboot.toml (target/judges/sanboot_boot.txt)
	@$(STEP) "a boot is recorded" $(WITH) --empty judges/sanboot/record.sh target/judges/sanboot_boot.txt

.PHONY: fileserver
fileserver: build ## the file-server load from two clients against Samba by SMB, every file compared; the real verification in short (stack: root, FUSE, loop devices)
	@$(STEP) "file-server load against Samba" judges/fileserver.sh
	@$(STEP) "file servers on stacks of their own" judges/fileserver_real.sh

.PHONY: write-cache
write-cache: setup build ## a guest's file server killed CACHE_KILLS (2) times, and the array with it: the disk's write cache on and off, the array's with a journal and without
	@$(STEP) "write caches and $(CACHE_KILLS) kills" judges/write_cache.sh $(CACHE_KILLS)

.PHONY: growth
growth: setup build ## a guest's disk, partition and ext4 grow under load; deleted space comes back; an over-committed pool is full and expanded
	@$(STEP) "growth under load" judges/growth.sh

.PHONY: kill
kill: build ## kill -9 under load KILLS (5) times, every sector compared; then drives' files removed and replaced under load
	@$(STEP) "kill -9, $(KILLS) times" $(KILL) --masu $(MASU) --rounds $(KILLS)
	@$(STEP) "kill -9 with a cache and a journal, $(KILLS) times" $(KILL) --masu $(MASU) --cached --rounds $(KILLS)
	@$(STEP) "drives removed and replaced under load" $(KILL) --masu $(MASU) --replace

.PHONY: restart
restart: setup release ## kill -9 with 10 TiB mapped: a host reads again within 5 s, and at a second node within 15 s
	@$(STEP) "restart, build" cargo build --release --locked --quiet --package pool --example open_ten_tb
	@MASU=$(RELEASE) $(STEP) "kill -9 with 10 TiB mapped" judges/restart.sh
	@MASU=$(RELEASE) $(STEP) "take-over with 10 TiB mapped" judges/takeover.sh

# Not a part of `make test`: it takes a minute and a half.
.PHONY: ceph
ceph: setup-ceph build ## drives on RBD images of a real Ceph cluster of one node: the back end, fences, kill -9 KILLS (5) times (as root)
	@$(STEP) "drives on RBD images" judges/ceph_rbd.sh $(KILLS)

.PHONY: cluster
cluster: setup-ceph build ## two nodes over a real Ceph and a real etcd: the owner killed, stopped, ended; etcd away (as root)
	@$(STEP) "two nodes over RBD and etcd" judges/cluster.sh

.PHONY: cluster-short
cluster-short: setup-ceph build ## three nodes over a real Ceph and a real etcd, each case once (as root)
	@$(STEP) "three nodes over RBD and etcd" judges/cluster.sh short

.PHONY: cluster-guest
cluster-guest: build ## fail-over as a guest with dm-multipath and fio sees it: KILLS (3) kills, drains, SIGSTOP, SIGTERM, etcd away (as root)
	@$(STEP) "setup, with Ceph and a kernel that knows ALUA" judges/setup.sh --ceph --alua
	@$(STEP) "fail-over as a guest sees it" judges/cluster_guest.sh

.PHONY: cluster-faults
cluster-faults: build ## the same guest while the owner is cut off from all networks, the store stands still and the registry is killed (as root)
	@$(STEP) "setup, with Ceph and a kernel that knows ALUA" judges/setup.sh --ceph --alua
	@$(STEP) "faults below and between nodes as a guest sees them" judges/cluster_faults.sh

.PHONY: controllers-guest
controllers-guest: build ## a pool moves between two controllers as a guest with dm-multipath and fio sees it: MOVES (6) moves, and one that the guest asks for
	@$(STEP) "setup, with a kernel that knows ALUA" judges/setup.sh --alua
	@$(STEP) "moves as a guest sees them" judges/controllers_guest.sh

.PHONY: shared-device
shared-device: setup build ## a block device that two machines share, each a guest with a node: its owner killed, paused and woken; the fence is a persistent reservation
	@$(STEP) "a block device of two machines" judges/shared_device.sh

.PHONY: rolling-upgrade
rolling-upgrade: tools web/dist/report.html ## nodes of an older version (judges/older_version, which it builds) are updated under load, back, and killed
	@$(STEP) "nodes of two versions" judges/rolling_upgrade.sh

.PHONY: ceph-bench
ceph-bench: export MASU := $(RELEASE)
ceph-bench: setup-ceph release ## 4 KiB random I/O on RBD images through masu, beside fio's librbd engine
	@$(STEP) "RBD images through masu and by fio" judges/ceph_bench.sh

.PHONY: hostile
hostile: build ## those who mean it ill, or know no better: file systems on drives, labels of another version, hung and full file systems, odd clients, crafted images
	@$(STEP) "hostile" judges/hostile.sh

.PHONY: report
report: build ## the main job in a short form, its report opened in a browser that checks every figure
	@$(STEP) "report in a browser" judges/report.sh

.PHONY: api
api: build ## the API of a running array by schemathesis: all operations, in sequences; errors, tags, pages, keys, jobs, streams
	@$(STEP) "API" judges/api.sh

.PHONY: metrics
metrics: build ## the metrics of an array under load, the alert rules and the dashboard, held against Prometheus' promtool
	@$(STEP) "metrics" $(WITH) --cache 64MiB judges/metrics.sh

.PHONY: traces
traces: build ## the traces of commands by qemu-io, held against OpenTelemetry's protobuf classes; a collector that is away
	@$(STEP) "traces" judges/traces.sh

.PHONY: fuzz
fuzz: tools ## every fuzz target for FUZZ_SECONDS (5)
	@$(STEP) "fuzz" judges/fuzz.sh $(FUZZ_SECONDS)

.PHONY: sim
sim: build ## power cuts at persistence points and at random, drives lost with them, on every stack, from SIM_SEED (1) on
	@$(STEP) "sim, lives of seed $(SIM_SEED)" $(SIM) --seed $(SIM_SEED) --steps 2000
	@$(STEP) "sim, one in $(SIM_ONE_IN) persistence points of seed $(SIM_SEED)" $(SIM) --seed $(SIM_SEED) --every-point --steps $(SIM_STEPS) --one-in $(SIM_ONE_IN)
	@for from in $$(seq 0 $(SIM_CRASHES_PART) $$(($(SIM_CRASHES) - 1))); do \
	  seed=$$(($(SIM_SEED) + from)) left=$$(($(SIM_CRASHES) - from)); \
	  part=$$((left < $(SIM_CRASHES_PART) ? left : $(SIM_CRASHES_PART))); \
	  $(STEP) "sim, $$part crashes from seed $$seed on" $(SIM) --seed $$seed --crashes $$part || exit; \
	done
	@for from in $$(seq 0 $(SIM_HISTORIES_PART) $$(($(SIM_HISTORIES) - 1))); do \
	  seed=$$(($(SIM_SEED) + from)) left=$$(($(SIM_HISTORIES) - from)); \
	  part=$$((left < $(SIM_HISTORIES_PART) ? left : $(SIM_HISTORIES_PART))); \
	  $(STEP) "sim, $$part histories of several nodes from seed $$seed on" $(SIM) --seed $$seed --cluster $$part || exit; \
	done

.PHONY: bench
bench: export MASU := $(RELEASE)
bench: setup release ## masu beside tgt and a bare exchange in one run: IOPS, MB/s and ratios
	@$(STEP) "bare exchange" cargo build --release --locked --package world_real --example loopback
	@$(STEP) "bench" $(WITH) --memory --pin 0 bash -c 'MASU_PLAIN=$$MASU_URL \
	  $(WITH) --memory --cache 1GiB --pin 0 bash -c '\''judges/bench.sh masu="$$MASU_PLAIN" masu-cached="$$MASU_URL"'\'''
	@$(STEP) "write policies" judges/write_policies.sh
	@$(STEP) "three nodes beside one" judges/nodes_bench.sh
	@$(MAKE) --no-print-directory bench-layers

BEFORE ?= HEAD^
.PHONY: bench-pair
bench-pair: setup release ## this version beside that of the commit BEFORE (the one before this) in the same run: ratios of IOPS and MB/s
	@MASU=$(RELEASE) $(STEP) "this version beside $(BEFORE)" judges/bench_pair.sh $(BEFORE)

.PHONY: bench-layers
bench-layers: tools ## what single layers give, beside the drives below them: parity, groups, pools, frames, journal, scheduling, placement, modelled drives
	@$(STEP) "layers, build" cargo build --release --locked --quiet -p pool --example open_ten_tb
	@$(STEP) "layers, build" cargo bench --locked --quiet --no-run -p parity -p raid -p pool -p cache -p qos -p vdisk -p array -p lab_tools -p verify_sanboot \
	  --bench speed --bench sequential --bench placement --bench frames --bench journal --bench decisions --bench images \
	  --bench promises --bench sets --bench streams --bench drives --bench san --bench forecast
	@mkdir -p target/bench
	@$(STEP) "parity kernels" $(BENCH) parity --bench speed
	@$(STEP) "sequential writes, file drives" $(BENCH) raid --bench sequential -- --dir $(CURDIR)/target/bench
	@$(STEP) "sequential writes, memory drives" $(BENCH) raid --bench sequential -- --memory
	@$(STEP) "opening a pool of 10 TB" target/release/examples/open_ten_tb scattered
	@$(STEP) "frames of the cache" $(BENCH) cache --bench frames
	@$(STEP) "journal of the cache, file drives" $(BENCH) cache --bench journal -- $(CURDIR)/target/bench
	@$(STEP) "a VHDX beside a raw file, and beside qemu-storage-daemon" $(BENCH) vdisk --bench images -- $(CURDIR)/target/bench
	@$(STEP) "scheduling decisions" $(BENCH) qos --bench decisions
	@$(STEP) "a cached read, without and with policies" $(BENCH) array --bench promises
	@$(STEP) "200 sets of policies on ten modelled drives, in virtual time" $(BENCH) array --bench sets
	@$(STEP) "64 sequential readers, in virtual time" $(BENCH) array --bench streams
	@$(STEP) "placement, in virtual time" $(BENCH) pool --bench placement
	@$(STEP) "modelled drives beside measured ones" $(BENCH) lab_tools --bench drives
	@$(STEP) "eight servers on 28 drives, in virtual time" $(BENCH) verify_sanboot --bench san
	@$(STEP) "forecasts held against runs, one seed" $(BENCH) verify_sanboot --bench forecast -- $(CURDIR)/target/bench 1

.PHONY: soak
soak: setup build release ## every persistence point of 2,000 operations, 100,000 crashes, lives with fresh seeds and fuzzing for SOAK_MINUTES (60), the judges on the release binary
	@$(MAKE) --no-print-directory sim SIM_SEED=$$RANDOM SIM_STEPS=200 SIM_ONE_IN=1 SIM_CRASHES=100000 SIM_HISTORIES=10000
	@$(STEP) "virtual disks, the power cut at every point" cargo test --quiet --locked --profile checked --workspace --test power_cuts -- --include-ignored
	@$(STEP) "long tests: every point, many seeds, many mutations" cargo test --quiet --locked --profile checked --workspace --lib -- --ignored
	@for stack in $(GROUPS); do $(STEP) "sim, every persistence point of $$stack" $(SIM) --stack $$stack --seed $$RANDOM --every-point --steps 2000; done
	@end=$$(($$(date +%s) + $(SOAK_MINUTES) * 30)); while [ $$(date +%s) -lt $$end ]; do \
	  seed=$$((RANDOM * 32768 + RANDOM)); $(STEP) "sim seed $$seed" $(SIM) --seed $$seed; done
	@$(STEP) "fuzz" judges/fuzz.sh $$(($(SOAK_MINUTES) * 30 / $$(ls fuzz/targets | wc -l)))
	@$(MAKE) --no-print-directory restart static shared-device rolling-upgrade
	@$(MAKE) --no-print-directory judges KILLS=50 CACHE_KILLS=10 NODES_FORM= MASU=$(RELEASE)

.PHONY: clean
clean: ## remove everything that was built
	rm -rf target web/dist web/node_modules fuzz/target

.PHONY: tools
tools:
	@command -v cargo >/dev/null || { echo "make: Rust is missing: https://rustup.rs" >&2; exit 2; }
	@command -v npm >/dev/null || { echo "make: Node is missing (20.19 or later): https://nodejs.org" >&2; exit 2; }

web/node_modules/.package-lock.json: web/package-lock.json
	@$(STEP) "npm ci" npm --prefix web ci --no-audit --no-fund --silent
	@touch $@

web/dist/report.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	@$(STEP) "report viewer" npm --prefix web run build --silent
	@touch $@
