//! A mail server for the tests of everything but mail: it takes whatever comes, unencrypted, and counts it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The running server. It ends when this is dropped.
pub(crate) struct MailSink {
    pub(crate) port: u16,
    ids: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
}

impl MailSink {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ids, is_over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (taken, over) = (Arc::clone(&ids), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let taken = Arc::clone(&taken);
                // A daemon that is killed breaks off in the middle.
                std::thread::spawn(move || drop(converse(client, &taken)));
            }
        });
        Self { port, ids, is_over }
    }

    /// The `Message-ID` of every mail that was taken, in order.
    pub(crate) fn message_ids(&self) -> Vec<String> {
        self.ids.lock().unwrap().clone()
    }
}

impl Drop for MailSink {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn converse(client: TcpStream, taken: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut answers = client.try_clone()?;
    answers.write_all(b"220 sink\r\n")?;
    let mut id = String::new();
    let mut is_data = false;
    for line in BufReader::new(client).lines() {
        let line = line?;
        let answer = match line.get(..4).unwrap_or_default().to_ascii_uppercase().as_str() {
            _ if is_data && line == "." => {
                is_data = false;
                taken.lock().unwrap().push(std::mem::take(&mut id));
                "250 taken"
            }
            _ if is_data => {
                if let Some(told) = line.strip_prefix("Message-ID: ") {
                    told.clone_into(&mut id);
                }
                continue;
            }
            "DATA" => {
                is_data = true;
                "354 go on"
            }
            "QUIT" => return answers.write_all(b"221 bye\r\n"),
            _ => "250 well",
        };
        answers.write_all(format!("{answer}\r\n").as_bytes())?;
    }
    Ok(())
}
