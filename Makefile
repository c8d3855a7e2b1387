# The two commands of a newcomer are `make demo` and `make test`; the rest is for those who change Lupine.
.PHONY: help demo test fuzz bench docs format nightly ci clean

help:
	@echo 'make demo     build the command-line tool, and let it show what Lupine does'
	@echo 'make test     build and run every test'
	@echo 'make fuzz     fuzz every parser: SECONDS=60 each, TARGETS="URLReader ..." for some only'
	@echo 'make bench    measure beside libcurl; prints ratios'
	@echo 'make docs     build the documentation into Docs/.docc-build'
	@echo 'make format   format every Swift file'
	@echo 'make nightly  what takes too long for every commit: longer fuzzing, every benchmark'
	@echo 'make ci       everything that must hold of a commit'

demo:
	@.ci/demo

test:
	@.ci/test

fuzz:
	@.ci/fuzz $(or $(SECONDS),60) $(TARGETS)

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
