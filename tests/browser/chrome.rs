//! A headless Chromium of its own for one test, driven through chromedriver. It speaks to this machine alone.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use thirtyfour::common::command::FormatRequestData;
use thirtyfour::prelude::*;
use thirtyfour::{LoggingPrefsLogLevel, RequestData, SessionId};
use tokio::runtime::{Builder, Runtime};

use crate::support::await_that;

/// Longest that an element may take to come.
const WAIT_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

const ARGUMENTS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    // Names lead nowhere: whatever a page asks for, nothing leaves the machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// The browser. It ends when this is dropped.
pub(super) struct Chrome {
    /// None once it has been told to quit.
    driver: Option<WebDriver>,
    runtime: Runtime,
    process: Child,
    _profile: tempfile::TempDir,
}

impl Chrome {
    pub(super) fn start() -> Self {
        Self::start_with(json!({}))
    }

    /// A browser whose pages run no scripts.
    pub(super) fn start_without_scripts() -> Self {
        Self::start_with(json!({"profile.managed_default_content_settings.javascript": 2}))
    }

    fn start_with(preferences: Value) -> Self {
        let (process, port) = start_driver();
        let profile = tempfile::tempdir().unwrap();
        let mut wishes = DesiredCapabilities::chrome();
        for argument in ARGUMENTS {
            wishes.add_arg(argument).unwrap();
        }
        wishes.add_arg(&format!("--user-data-dir={}", profile.path().display())).unwrap();
        wishes.add_experimental_option("prefs", preferences).unwrap();
        wishes.set_browser_log_level(LoggingPrefsLogLevel::All).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let address = format!("http://127.0.0.1:{port}");
        let driver = runtime.block_on(WebDriver::new(address, wishes));
        let mut chrome = Self { driver: None, runtime, process, _profile: profile };
        chrome.driver = Some(driver.expect("chromedriver starts a Chromium of its own version"));
        chrome
    }

    pub(super) fn open(&self, address: &str) {
        self.runtime.block_on(self.driver().goto(address)).unwrap();
    }

    /// The path and query of the page.
    pub(super) fn address(&self) -> String {
        let url = self.runtime.block_on(self.driver().current_url()).unwrap();
        url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
    }

    pub(super) fn title(&self) -> String {
        self.runtime.block_on(self.driver().title()).unwrap()
    }

    pub(super) fn back(&self) {
        self.runtime.block_on(self.driver().back()).unwrap();
    }

    /// Waits until the selector finds an element.
    pub(super) fn await_element(&self, selector: &str) -> WebElement {
        let query = self.driver().query(By::Css(selector)).wait(WAIT_MAX, POLL);
        self.runtime.block_on(query.first()).unwrap()
    }

    /// Clicks a link or a button as a person would (it must be in view and not covered), and waits for the page that
    /// it leads to.
    pub(super) fn follow(&self, selector: &str) {
        let element = self.await_element(selector);
        self.await_other_page(|| self.runtime.block_on(element.click()).unwrap());
    }

    /// The same by the Enter key.
    pub(super) fn follow_by_key(&self, selector: &str) {
        self.await_other_page(|| self.write(selector, "\u{e007}"));
    }

    /// Without scripts chromedriver does not wait by itself for the page that a click leads to.
    fn await_other_page(&self, leave: impl FnOnce()) {
        let root = || self.await_element("html").element_id();
        let old = root();
        leave();
        await_that("another page", || root() != old);
    }

    /// Types into the element; into the page where the selector is `body`.
    pub(super) fn write(&self, selector: &str, text: &str) {
        let element = self.await_element(selector);
        self.runtime.block_on(element.send_keys(text)).unwrap();
    }

    /// The text of the first such element as a reader sees it.
    pub(super) fn text(&self, selector: &str) -> String {
        let element = self.await_element(selector);
        self.runtime.block_on(element.text()).unwrap()
    }

    /// The texts of all such elements, seen or not, without the white space around them.
    pub(super) fn texts(&self, selector: &str) -> Vec<String> {
        self.properties(selector, "textContent").iter().map(|text| text.trim().to_owned()).collect()
    }

    /// A property of all such elements.
    pub(super) fn properties(&self, selector: &str, name: &str) -> Vec<String> {
        let all = async {
            let mut values = Vec::new();
            for element in self.driver().find_all(By::Css(selector)).await? {
                values.push(element.prop(name).await?.unwrap_or_default());
            }
            WebDriverResult::Ok(values)
        };
        self.runtime.block_on(all).unwrap()
    }

    pub(super) fn count(&self, selector: &str) -> usize {
        self.runtime.block_on(self.driver().find_all(By::Css(selector))).unwrap().len()
    }

    /// What the body of a function gives in the page.
    pub(super) fn run(&self, script: &str) -> Value {
        self.runtime.block_on(self.driver().execute(script, [])).unwrap().json().clone()
    }

    /// The same of one that hands its answer to the function `done`.
    pub(super) fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[0]; {script}");
        self.runtime.block_on(self.driver().execute_async(script, [])).unwrap().json().clone()
    }

    /// A command of the `DevTools` protocol.
    pub(super) fn command(&self, name: &'static str, parameters: Value) {
        let command = DevTools { name, parameters };
        self.runtime.block_on(self.driver().handle().cmd(command)).unwrap();
    }

    /// What the browser complained about since the last time it was asked: errors of scripts, things that the policy
    /// stopped, files that are missing.
    pub(super) fn complaints(&self) -> Vec<String> {
        let log = self.runtime.block_on(self.driver().browser_log()).unwrap();
        log.into_iter().map(|entry| format!("{} {}", entry.level, entry.message)).collect()
    }

    /// Writes what is in view to target/screenshots.
    pub(super) fn take_picture(&self, name: &str) {
        let png = self.runtime.block_on(self.driver().screenshot_as_png()).unwrap();
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), png).unwrap();
    }

    fn driver(&self) -> &WebDriver {
        self.driver.as_ref().expect("the browser runs until it is dropped")
    }
}

impl Drop for Chrome {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            drop(self.runtime.block_on(driver.quit()));
        }
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Starts chromedriver on a free port of its own choice, and waits until it says which.
fn start_driver() -> (Child, u16) {
    let mut process = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("chromedriver is missing: run `make test`, which installs it");
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut said = String::new();
    let port = loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "chromedriver did not start:\n{said}");
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            break port.trim().trim_end_matches('.').parse().expect("a port number");
        }
        said.push_str(&line);
    };
    // Whatever else it says must not fill the pipe.
    std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
    (process, port)
}

/// A command of the `DevTools` protocol, which chromedriver passes on.
#[derive(Debug)]
struct DevTools {
    name: &'static str,
    parameters: Value,
}

impl FormatRequestData for DevTools {
    fn format_request(&self, session: &SessionId) -> RequestData {
        let post = "POST".parse().expect("a method of HTTP");
        RequestData::new(post, format!("session/{session}/goog/cdp/execute"))
            .add_body(json!({"cmd": self.name, "params": self.parameters}))
    }
}
