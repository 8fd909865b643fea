//! The login token: made at the first run, kept beside the database, readable by its owner alone.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::anyhow;

use super::failure::Failure;

/// Shortest token that is taken as one: half of what we make.
const TOKEN_CHARS_MIN: usize = 32;

/// Reads the token, or makes one of 256 random bits.
pub(super) fn load(path: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => check(path, text.trim()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(path),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

fn check(path: &Path, token: &str) -> Result<String, Failure> {
    if token.len() < TOKEN_CHARS_MIN {
        return Err(unusable(path, "it holds no token; delete it, and a new one is made"));
    }
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(unusable(path, "others can read it; delete it, and a new one is made"));
    }
    Ok(token.to_owned())
}

fn make(path: &Path) -> Result<String, Failure> {
    let bytes: [u8; 32] = rand::random();
    let token = blake3::Hash::from_bytes(bytes).to_hex().to_string();
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.and_then(|mut file| writeln!(file, "{token}"))
        .map_err(|error| unusable(path, &error.to_string()))?;
    Ok(token)
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::cannot_create(anyhow!("the login token {}: {why}", path.display()))
}
