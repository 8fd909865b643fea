//! Stub.
use crate::model::{OutcomeClass, Text};
use std::path::PathBuf;
use std::time::Duration;
pub const EXAMPLE: &str = "";
pub struct Environment;
impl Environment {
    pub fn of_process() -> Self {
        Self
    }
}
pub struct Overrides {
    pub config: Option<PathBuf>,
    pub db: Option<PathBuf>,
    pub listen: Option<String>,
    pub rules: Option<PathBuf>,
}
pub struct Tail {
    pub line_bytes_max: usize,
    pub open_files_max: usize,
    pub scan_every: Duration,
}
pub struct Web {
    pub listen: String,
    pub allowed_hosts: Vec<String>,
    pub base_url: Option<String>,
}
pub struct StoreCfg {
    pub memory_max: String,
}
pub struct Rules {
    pub folder: Option<PathBuf>,
    pub disabled: Vec<String>,
}
pub struct Config {
    pub db: PathBuf,
    pub logs: Vec<PathBuf>,
    pub tail: Tail,
    pub web: Web,
    pub store: StoreCfg,
    pub rules: Rules,
    pub catalogue: Option<PathBuf>,
    pub clocks: Vec<(Text, i64)>,
    pub outcomes: Vec<(String, OutcomeClass)>,
    pub mail: Option<crate::notify::MailConfig>,
}
impl Config {
    pub fn to_masked_toml(&self) -> String {
        String::new()
    }
}
pub fn load(o: &Overrides, _: &Environment) -> Result<Config, Vec<String>> {
    Ok(Config {
        db: o.db.clone().unwrap_or("/tmp/ct/calltrail.duckdb".into()),
        logs: vec![],
        tail: Tail {
            line_bytes_max: 16 << 20,
            open_files_max: 256,
            scan_every: Duration::from_secs(2),
        },
        web: Web {
            listen: o.listen.clone().unwrap_or("127.0.0.1:7700".into()),
            allowed_hosts: vec![],
            base_url: None,
        },
        store: StoreCfg { memory_max: "1GB".into() },
        rules: Rules { folder: o.rules.clone(), disabled: vec![] },
        catalogue: None,
        clocks: vec![],
        outcomes: vec![],
        mail: None,
    })
}
