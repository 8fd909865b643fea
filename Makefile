# What people and CI type. Plain cargo commands work as well, once `make libduckdb` has been run.

.PHONY: help demo build libduckdb test soak test-tools lint deny advisories bench joins

# Handed to the program: make demo ARGS="--speed 20"
ARGS ?=

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: libduckdb ## See it work: an attack is written live and watched in the browser
	cargo run --locked -- demo $(ARGS)

build: libduckdb ## Build the program for use: target/release/calltrail
	cargo build --release --locked

libduckdb: ## Fetch DuckDB's prebuilt library into target/libduckdb, checked by its hash
	@.ci/libduckdb

test: libduckdb test-tools ## Run every test; sets up what they need first
	cargo test --locked --no-fail-fast

# One seed alone, telling each step: make soak SEEDS=17
SEEDS ?= 0..5000

soak: libduckdb ## Test the daemon against thousands of random sequences of faults
	CALLTRAIL_SEEDS=$(SEEDS) cargo test --locked --test tests faults:: -- --nocapture

test-tools: ## Set up what the tests need beside Rust: a browser and a mail server
	@.ci/test-tools

lint: libduckdb ## Check formatting, clippy and the documentation
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

deny: ## Check the dependencies' licences, sources and duplicates
	@.ci/deny bans licenses sources

# Apart from `deny`: the answer changes from day to day without a change here, and needs the advisory database.
advisories: ## Check the dependencies against the RustSec advisory database
	@.ci/deny advisories

bench: libduckdb ## Measure a pass over a million records beside DuckDB's load, joining, and the rules beside rsigma
	cargo bench --locked --bench scan
	cargo bench --locked --bench correlate
	cargo bench --locked --bench detect

joins: libduckdb ## Measure how many joins are right and how many are found, on a million hard records
	cargo bench --locked --bench joins
