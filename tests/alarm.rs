//! From a line in a log to a mail in a mailbox: the daemon, a real mail server, and a network that is down at first.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::smtp_server::{PASSWORD, RealSmtp, USERNAME};
use crate::support::{Daemon, await_that, calltrail, json_lines};

const ATTACK: &str = include_str!("samples/trifecta/logs/tickets/audit.jsonl");

#[test]
fn a_mail_server_that_is_down_gets_the_trifecta_once_when_it_is_up() {
    let server = RealSmtp::start();
    let home = tempfile::tempdir().unwrap();
    let port = free_port();
    let config = write_config(home.path(), port, &server);
    let logs = home.path().join("logs");
    fs::create_dir_all(logs.join("tickets")).unwrap();
    let daemon = start_after_history(home.path(), &logs, &config);
    fs::write(logs.join("tickets/audit.jsonl"), ATTACK).unwrap();

    daemon.await_count("select least(count(*), 1) from delivery_log where outcome = 'retry'", 1);
    assert!(server.mails().is_empty());
    // A daemon that is killed now still owes the mail.
    daemon.kill();
    forward(port, server.port);
    let daemon = Daemon::start_with(home.path(), &logs, &["--config", config.to_str().unwrap()]);
    await_that("the mail", || !server.mails().is_empty());
    daemon.await_count("select count(*) from delivery_log where outcome = 'sent'", 1);

    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains("[critical]"), "{}", mails[0]);
    assert!(mails[0].contains("X-Calltrail-Rule: trifecta-signature"), "{}", mails[0]);
    assert!(daemon.stop().success());
    assert_eq!(server.mails().len(), 1, "the mail comes once");
}

#[test]
fn history_is_not_mailed_but_what_came_while_the_daemon_was_down_is() {
    let server = RealSmtp::start();
    let home = tempfile::tempdir().unwrap();
    let config = write_config(home.path(), server.port, &server);
    let logs = home.path().join("logs");
    fs::create_dir_all(logs.join("tickets")).unwrap();
    let file = logs.join("tickets/audit.jsonl");
    fs::write(&file, ATTACK).unwrap();
    let daemon = Daemon::start_with(home.path(), &logs, &["--config", config.to_str().unwrap()]);
    daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
    daemon.kill();

    let later = ATTACK.replace("2026-11-20", "2026-11-21");
    let mut log = fs::OpenOptions::new().append(true).open(&file).unwrap();
    log.write_all(later.as_bytes()).unwrap();
    let daemon = Daemon::start_with(home.path(), &logs, &["--config", config.to_str().unwrap()]);
    daemon.await_count("select count(*) from delivery_log where outcome = 'sent'", 1);
    daemon.await_count("select count(*) from alerts where level = 'critical'", 2);
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains("2026-11-21"), "{}", mails[0]);
}

#[test]
fn an_attack_that_goes_on_after_the_installation_is_mailed() {
    let server = RealSmtp::start();
    let home = tempfile::tempdir().unwrap();
    let config = write_config(home.path(), server.port, &server);
    let logs = home.path().join("logs");
    fs::create_dir_all(logs.join("tickets")).unwrap();
    let file = logs.join("tickets/audit.jsonl");
    fs::write(&file, ATTACK).unwrap();
    let daemon = Daemon::start_with(home.path(), &logs, &["--config", config.to_str().unwrap()]);
    daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
    daemon.await_count("select count(*) from meta where name = 'history_read_at'", 1);
    assert!(server.mails().is_empty());

    // The same session writes outward once more: the alert is the one of before, the news is not.
    let again = ATTACK.lines().find(|line| line.contains("post_comment")).unwrap();
    let again = again.replace("08:00:09.9", "08:00:20.9");
    let mut log = fs::OpenOptions::new().append(true).open(&file).unwrap();
    log.write_all(format!("{again}\n").as_bytes()).unwrap();
    daemon.await_count("select count(*) from delivery_log where outcome = 'sent'", 1);
    daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
    assert_eq!(server.mails().len(), 1);
}

#[test]
fn a_mail_under_way_when_the_daemon_is_stopped_is_not_sent_again() {
    let server = Arc::new(RealSmtp::start());
    let (port, release) = hold_answers(&server);
    let home = tempfile::tempdir().unwrap();
    let config = write_config(home.path(), port, &server);
    let logs = home.path().join("logs");
    fs::create_dir_all(logs.join("tickets")).unwrap();
    let daemon = start_after_history(home.path(), &logs, &config);
    fs::write(logs.join("tickets/audit.jsonl"), ATTACK).unwrap();
    await_that("the mail", || !server.mails().is_empty());

    // The server has it and says so only when the dashboard is long gone: nothing outside shows that the writer still
    // waits, so there is no event to await.
    let pid = daemon.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let address = daemon.link.split('/').nth(2).unwrap();
    await_that("the end of the dashboard", || TcpStream::connect(address).is_err());
    std::thread::sleep(Duration::from_millis(500));
    drop(release);
    assert!(daemon.stop().success());

    let sql = "select outcome from delivery_log";
    let output = calltrail(home.path()).args(["query", "--output", "json", sql]).output().unwrap();
    assert_eq!(json_lines(&output), [serde_json::json!({ "outcome": "sent" })]);
    let daemon = Daemon::start_with(home.path(), &logs, &["--config", config.to_str().unwrap()]);
    daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
    assert!(daemon.stop().success());
    assert_eq!(server.mails().len(), 1, "the mail comes once");
}

/// A daemon that has had its first look: whatever comes from now on is news.
fn start_after_history(home: &Path, logs: &Path, config: &Path) -> Daemon {
    fs::write(logs.join("tickets/earlier.jsonl"), "\n").unwrap();
    let daemon = Daemon::start_with(home, logs, &["--config", config.to_str().unwrap()]);
    daemon.await_count("select count(*) from sources", 1);
    daemon
}

pub(crate) fn write_config(home: &Path, port: u16, server: &RealSmtp) -> PathBuf {
    let password = home.join("password");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&password)
        .unwrap();
    file.write_all(PASSWORD.as_bytes()).unwrap();
    fs::write(home.join("ca.pem"), &server.root_pem).unwrap();
    let config = home.join("calltrail.toml");
    let text = format!(
        "[mail]\nfrom = \"calltrail@example.com\"\nto = [\"oncall@example.com\"]\nlevel_min = \"critical\"\n\n\
         [mail.smtp]\nhost = \"localhost\"\nport = {port}\nsecurity = \"starttls\"\n\
         username = \"{USERNAME}\"\npassword_file = \"password\"\nca_file = \"ca.pem\"\n\n\
         [web]\nbase_url = \"http://127.0.0.1:7700\"\n"
    );
    fs::write(&config, text).unwrap();
    config
}

/// A port where nothing listens now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The network comes up: from now on the port leads to the server.
fn forward(port: u16, to: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            let (mut up, mut back) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut from_client, mut from_server) = (stream, server);
            std::thread::spawn(move || drop(std::io::copy(&mut from_client, &mut back)));
            std::thread::spawn(move || {
                drop(std::io::copy(&mut from_server, &mut up));
                drop(up.shutdown(std::net::Shutdown::Both));
            });
        }
    });
}

/// A port that leads to the server, and holds back whatever the server says once it has a mail, until the sender that
/// is returned is dropped.
fn hold_answers(server: &Arc<RealSmtp>) -> (u16, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (release, held) = mpsc::channel();
    let server = Arc::clone(server);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let Ok(mut up) = TcpStream::connect(("127.0.0.1", server.port)) else { continue };
            let (mut from_client, mut to_server) =
                (client.try_clone().unwrap(), up.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut from_client, &mut to_server)));
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = up.read(&mut chunk) {
                if !server.mails().is_empty() {
                    held.iter().for_each(drop::<()>);
                }
                if client.write_all(&chunk[..length]).is_err() {
                    break;
                }
            }
            drop(client.shutdown(std::net::Shutdown::Both));
        }
    });
    (port, release)
}
