# The two commands of a newcomer are `make demo` and `make test`; the rest is for those who change Lupine.
.PHONY: help demo test fuzz fuzz-minimise bench docs format nightly ci clean

help:
	@echo 'make demo     build the command-line tool, and let it show what Lupine does'
	@echo 'make test     build and run every test'
	@echo 'make fuzz     fuzz whatever reads bytes from outside: FUZZ_SECONDS=30 each, TARGET=multipart for one'
	@echo 'make fuzz-minimise  keep the fewest inputs found by fuzzing that cover as much'
	@echo 'make bench    measure beside peers: ratios, figures and plots into Docs; QUICK=1 for a first impression'
	@echo 'make docs     build the documentation into Docs/.docc-build'
	@echo 'make format   format every Swift file'
	@echo 'make nightly  what takes too long for every commit: longer fuzzing, every benchmark'
	@echo 'make ci       everything that must hold of a commit'

demo:
	@.ci/demo

test:
	@.ci/test

fuzz:
	@.ci/fuzz --seconds $(or $(FUZZ_SECONDS),30) $(TARGET)

fuzz-minimise:
	@.ci/fuzz --minimise $(TARGET)

bench:
	@.ci/bench

docs:
	@.ci/check-docs

format:
	swift format --in-place --recursive Package.swift Sources Tests Fuzz Benchmarks

nightly:
	@.ci/nightly

ci:
	@.ci/run

clean:
	rm -rf .build .build-* Docs/.docc-build
