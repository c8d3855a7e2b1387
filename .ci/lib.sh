# What every script of the checks sources: the root as the working directory, and a few words to say things with.

set -euo pipefail
# With it, cd may go elsewhere, and say so.
unset CDPATH
# Some say 1, or yes.
[ -z "${CI:-}" ] || [ "$CI" = false ] || export CI=true
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Swift's backtracer can hang for minutes after a crash, and takes the signal from libFuzzer.
export SWIFT_BACKTRACE=enable=no

# The tests' library looks up the whole stack for every error that is thrown, those that are asked for too, and shows it to nobody.
export SWT_SWIFT_ERROR_BACKTRACING_ENABLED=0

# Servers of the checks are on loopback, and no exception for whoever reads the environment.
# Some write it in capitals alone.
no_proxy=${no_proxy:-${NO_PROXY:-}}
export no_proxy="localhost,127.0.0.0/8,::1${no_proxy:+,$no_proxy}"
export NO_PROXY=$no_proxy

# Scratch space that ends with the script.
scratch() {
  local folder
  folder=$(mktemp -d "${TMPDIR:-/tmp}/lupine-check.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  scratch_folder=$folder
}

# At a terminal what runs stays in its foreground, so that Ctrl-C reaches it; elsewhere a limit of time ends all of its children.
foreground=()
[ ! -t 0 ] || foreground=(--foreground)

# `timeout` runs in a process group of its own, and hears nothing when this script is ended together with its group: the kernel tells it.
with_script=()
! setpriv --pdeathsig TERM true 2>/dev/null || with_script=(setpriv --pdeathsig TERM)

# within SECONDS COMMAND...: runs it with a limit of time; it does not outlive the script.
bounded=("${with_script[@]}" timeout "${foreground[@]}" --kill-after=10)
within() { "${bounded[@]}" "$@"; }

say() { printf '==> %s\n' "$*"; }

complain() { printf 'error: %s\n' "$*" >&2; }

die() {
  complain "$*"
  exit 1
}

need_swift() {
  command -v swift >/dev/null || die "no Swift toolchain in PATH: install Swift 6.3 or later from https://www.swift.org/install/linux"
}

# build SECONDS SCRATCH ARGUMENTS...: builds, with a limit of time; the compiler's progress is the progress.
# Two packages share a folder, and SwiftPM would take what it has planned there for the one as the plan of the other.
build() {
  local limit=$1 folder=$2 temporary status=0
  shift 2
  # The compiler's driver leaves folders behind. Their place is always the same one: SwiftPM compiles manifests anew in an environment that is new to it.
  mkdir -p "$folder/tmp"
  temporary=$(cd "$folder/tmp" && pwd)
  TMPDIR=$temporary within "$limit" swift build --scratch-path "$folder" --disable-build-manifest-caching "$@" </dev/null || status=$?
  # Not the newest: they may be of a build that has waited for the end of this one. The next build removes them.
  find "$temporary" -mindepth 1 -maxdepth 1 -mmin +0.1 -exec rm -rf {} + || true
  [ "$status" = 0 ] || die "swift build --scratch-path $folder $* failed (status $status; 124 means that it took more than $limit s)"
}

# How everything in .build-test is compiled, which is run and not debugged. LLVM's check of what the compiler gives it finds errors of the compiler, not ours.
undebugged=(-debug-info-format none -Xswiftc -Xfrontend -Xswiftc -disable-llvm-verify)

# build_tests SECONDS: compiles all tests, in .build-test: see `testSettings` in Package.swift.
build_tests() {
  local modules folder module
  modules=$(swift build --show-bin-path --scratch-path .build-test)/Modules || die "SwiftPM does not say where it builds"
  mkdir -p "$modules"
  # SwiftPM links a module of each for debuggers all the same, and nobody reads it: these four bytes begin one.
  for folder in Tests/*Tests; do
    module=$modules/${folder##*/}.swiftmodule
    [ -s "$module" ] || printf '\xe2\x9c\xa8\x0e' >"$module"
  done
  LUPINE_NO_DEBUG_INFO=1 build "$1" .build-test --build-tests "${undebugged[@]}"
}

# The tests in parts that exclude each other and leave none out, the long ones first: three at a time, since many tests wait for a deadline or for a process.
test_parts=(
  '--filter ^LupineSessionTests\.[A-P]'
  '--filter ^LupineSessionTests\.[^A-P]'
  '--filter ^LupineTests\.'
  '--filter ^CommandLineTests\.'
  '--skip ^(LupineSessionTests|CommandLineTests|LupineTests)\.'
)

# run_tests SCRATCH ARGUMENTS...: runs what was built there, all of it or what --filter chooses. Shows suites, failures and the closing lines; all of it is
# in SCRATCH/test.log.
run_tests() {
  local folder=$1 status=0 index log words said parts=("${test_parts[@]}") running=() logs=()
  shift
  # Two runs at a time keep what their parts say apart.
  said=$(mktemp -d "$folder/test.XXXXXX")
  [[ " $* " != *" --filter "* ]] || parts=("")
  for index in "${!parts[@]}"; do
    [ "${#running[@]}" -lt 3 ] || await_part
    log=$said/$index.log
    logs+=("$log")
    read -ra words <<<"${parts[index]}"
    : >"$log"
    # One test at a time in each: many block, and together they would starve the few threads that Swift runs tasks on.
    # Not `within`, which would be a shell in between, and that would outlive the script.
    "${bounded[@]}" "${LUPINE_TEST_SECONDS:-900}" "$folder/debug/LupinePackageTests.xctest" --testing-library swift-testing --no-parallel \
      "${words[@]}" "$@" </dev/null >"$log" 2>&1 &
    running+=($!)
    tail -q -n +1 -s 0.2 -f --pid=$! "$log" | awk '/^(◇|✔ Test |↳)| started\.$/ {next} {print; fflush()}' &
  done
  while [ "${#running[@]}" -gt 0 ]; do await_part; done
  wait
  cat "${logs[@]}" >"$said/test.log"
  mv "$said/test.log" "$folder/test.log"
  rm -r "$said"
  grep -a '^✔ Test run with' "$folder/test.log" || true
  if [ "$status" != 0 ]; then
    # Behind a long run, where a reader of no more than its end finds it.
    grep -aE -A 3 '^✘ Test .*recorded an issue|Fatal error|error: |SUMMARY: ' "$folder/test.log" | cut -c1-400 | tail -n 40 || true
    return "$status"
  fi
  # Where CI=true, everything is there that a test needs.
  if [ "${CI:-}" = true ] && grep -aE '^[^ ]+ (Test|Suite) .* skipped(:|\.|$)' "$folder/test.log" | sed 's/^/error: CI=true, but /'; then
    complain "an ordinary user, or a container that may not mount, leaves out what wants such rights: run the same with CI=false"
    return 1
  fi
  # A run without a test is no run, and a part that has not told its end has none.
  [ "$(grep -acE '^✔ Test run with [1-9][0-9]* tests? .*passed' "$folder/test.log")" = "${#parts[@]}" ] || die "a part of the tests did not run"
}

# Waits for one of the parts in `running`; the last failure is the `status`.
await_part() {
  local ended= result=0 left=() one
  wait -n -p ended "${running[@]}" || result=$?
  [ "$result" = 0 ] || status=$result
  # Two that a signal ended at once: it knows of one, and then of none.
  if [ -z "${ended:-}" ]; then
    for one in "${running[@]}"; do wait "$one" || status=$?; done
    running=()
    return
  fi
  for one in "${running[@]}"; do [ "$one" = "$ended" ] || left+=("$one"); done
  running=("${left[@]}")
}
