//! Records where the shared DuckDB library lies, so that the built programs find it without `LD_LIBRARY_PATH`.

fn main() {
    println!("cargo::rerun-if-env-changed=DUCKDB_LIB_DIR");
    if std::env::var_os("CARGO_FEATURE_BUNDLED").is_some() {
        return;
    }
    if let Some(folder) = std::env::var_os("DUCKDB_LIB_DIR") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
}
