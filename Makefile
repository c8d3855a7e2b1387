# The two commands of a newcomer are `make demo` and `make test`; the rest is for those who change Lupine.
.PHONY: help demo test fuzz fuzz-minimise simulate mutations coverage differential bench docs format nightly ci clean

help:
	@echo 'make demo     build the command-line tool, and let it show what Lupine does'
	@echo 'make test     build and run every test'
	@echo 'make fuzz     fuzz whatever reads bytes from outside: FUZZ_SECONDS=30 each, TARGET=multipart for one'
	@echo '               PROFILE=nightly for ten minutes and three'
	@echo 'make fuzz-minimise  keep the fewest inputs found by fuzzing that cover as much'
	@echo 'make simulate  play the engine through SEEDS=1000 networks full of faults; SEED=n plays one again'
	@echo 'make mutations  plant bugs, and demand that fuzzing finds each: TARGET=multipart for those of one'
	@echo 'make coverage  how much of the code the kept inputs of fuzzing reach'
	@echo 'make differential  what llhttp, zlib and Werkzeug make of the same bytes'
	@echo 'make bench    measure beside peers: ratios, figures and plots into Docs; QUICK=1 for a first impression'
	@echo 'make docs     build the documentation into Docs/.docc-build'
	@echo 'make format   format every Swift file'
	@echo 'make nightly  what takes too long for every commit: longer fuzzing, planted bugs, tests ten times, sanitizers in full, every benchmark'
	@echo 'make ci       everything that must hold of a commit'

demo:
	@.ci/demo

test:
	@.ci/test

fuzz:
	@.ci/fuzz --seconds $(or $(FUZZ_SECONDS),30) $(if $(PROFILE),--profile $(PROFILE)) $(TARGET)

fuzz-minimise:
	@.ci/fuzz --minimise $(TARGET)

mutations:
	@.ci/mutations $(TARGET)

coverage:
	@.ci/coverage

differential:
	@.ci/differential

simulate:
	@.ci/simulate $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000))

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
	rm -rf .build .build-* Docs/.docc-build Benchmarks/.build Benchmarks/Parsers/.build Benchmarks/Peers/*/.build
