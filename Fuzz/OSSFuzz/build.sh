#!/bin/bash -eu
# OSS-Fuzz's build step: every target as $OUT/NAME, with its seeds as $OUT/NAME_seed_corpus.zip and its dictionary as $OUT/NAME.dict.
# In OSS-Fuzz's image for Swift, $SRC/lupine is a clone of this repository, and libssl-dev, zlib1g-dev and zip are installed.
# TARGETS="URLReader Cookies" builds only those.
cd "$(dirname "$0")/../.."
sanitizer=${SANITIZER:-address}
out=${OUT:?where the fuzz targets go}
mkdir -p "$out"
export FUZZ=1
for name in ${TARGETS:-$(ls Fuzz/Runners)}; do
  # The driver gets the pair in one flag: two `--sanitize` options leave the code uninstrumented.
  swift build --scratch-path .build-fuzz -c release --product "Fuzz$name" --sanitize=fuzzer \
    -Xswiftc "-sanitize=fuzzer,$sanitizer" --static-swift-stdlib
  cp ".build-fuzz/release/Fuzz$name" "$out/$name"
  (cd "Fuzz/Corpora/$name" && zip -qr "$out/${name}_seed_corpus.zip" .)
  [ ! -e "Fuzz/Dictionaries/$name.dict" ] || cp "Fuzz/Dictionaries/$name.dict" "$out/$name.dict"
  # Swift's backtracer would take the signal that libFuzzer waits for.
  printf '[env]\nSWIFT_BACKTRACE = enable=no\n' >"$out/$name.options"
done
