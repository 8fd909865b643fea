//! A real mail server (aiosmtpd) that wants encryption and a login, for the tests of mail.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use calltrail::notify::{Login, Secret, Security, SmtpConfig};

/// The one user the server knows.
pub(crate) const USERNAME: &str = "calltrail";
pub(crate) const PASSWORD: &str = "correct-horse-battery-staple";

/// The running server. It ends when this is dropped.
pub(crate) struct RealSmtp {
    process: Child,
    /// The server ends when this is closed.
    stdin: Option<ChildStdin>,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    security: Security,
    /// The certificate to trust, in PEM.
    pub(crate) root_pem: Vec<u8>,
}

impl RealSmtp {
    /// A server that wants STARTTLS.
    pub(crate) fn start() -> Self {
        Self::start_with(Security::StartTls)
    }

    /// Starts a server with a certificate of its own for `localhost`; returns once it listens.
    pub(crate) fn start_with(security: Security) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .expect("a self-signed certificate");
        let root_pem = identity.cert.pem().into_bytes();
        fs::write(path("cert.pem"), &root_pem).expect("the certificate is written");
        fs::write(path("key.pem"), identity.signing_key.serialize_pem())
            .expect("the key is written");
        fs::create_dir(path("mails")).expect("the folder for mails");

        let mut process = Command::new(python())
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/smtp/sink.py"))
            .arg("--port-file")
            .arg(path("port"))
            .arg("--cert")
            .arg(path("cert.pem"))
            .arg("--key")
            .arg(path("key.pem"))
            .args(["--user", USERNAME, "--password", PASSWORD, "--folder"])
            .arg(path("mails"))
            .args((security == Security::Tls).then_some("--implicit-tls"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().expect("standard output is piped");
        let mut ready = String::new();
        BufReader::new(stdout).read_line(&mut ready).expect("the server speaks");
        assert_eq!(ready, "ready\n", "the mail server did not start; its error is above");
        let port = fs::read_to_string(path("port")).expect("the port file");
        let port = port.parse().expect("a port number");
        Self { process, stdin, folder, port, security, root_pem }
    }

    /// How to reach it with the right certificate and login.
    pub(crate) fn config(&self) -> SmtpConfig {
        let password = Secret::new(PASSWORD.to_owned());
        SmtpConfig {
            host: "localhost".to_owned(),
            port: self.port,
            security: self.security,
            login: Some(Login { username: USERNAME.to_owned(), password }),
            extra_root_pem: Some(self.root_pem.clone()),
        }
    }

    /// Every message received so far, in order. A message is here before its sender is told that it
    /// was taken.
    pub(crate) fn mails(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("mails")).expect("the mails");
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "eml"))
            .collect();
        paths.sort();
        paths.iter().map(|path| fs::read_to_string(path).expect("a mail is ASCII")).collect()
    }
}

impl Drop for RealSmtp {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // A failing test must not fail once more while it is cleaned up.
        drop(self.process.wait());
    }
}

/// The Python that has aiosmtpd, in the target folder.
fn python() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let shared = option_env!("CARGO_TARGET_DIR").map(PathBuf::from);
    let candidates = [Some(own), shared].into_iter().flatten();
    candidates.map(|target| target.join("py/bin/python")).find(|python| python.exists()).expect(
        "target/py holds no Python with aiosmtpd: run the tests by `make test`, which sets it up",
    )
}
