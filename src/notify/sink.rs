//! A mail server for tests that misbehaves as it is told. One behaviour per connection, the last
//! one for all others.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the server does on one connection.
#[derive(Clone, Debug)]
pub(super) enum Behaviour {
    Accept,
    /// Says this instead of a greeting and hangs up.
    Greet(&'static str),
    /// Answers the first command that begins with the word with this line.
    Answer(&'static str, &'static str),
    /// Takes the connection and says nothing.
    SilentAtOnce,
    /// Falls silent when a command begins with the word.
    SilentAt(&'static str),
    /// Takes the whole mail and hangs up without an answer.
    DropAfterData,
}

/// A running server; it ends with the runtime of the test.
pub(super) struct Sink {
    pub(super) port: u16,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    commands: Vec<String>,
    mails: Vec<String>,
}

impl Sink {
    pub(super) async fn start(behaviours: Vec<Behaviour>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Heard::default()));
        tokio::spawn(serve(listener, behaviours, Arc::clone(&heard)));
        Self { port, heard }
    }

    /// The mails that were taken whole, including those whose sender was not told.
    pub(super) fn mails(&self) -> Vec<String> {
        self.heard.lock().unwrap().mails.clone()
    }

    /// Every command of every connection.
    pub(super) fn commands(&self) -> Vec<String> {
        self.heard.lock().unwrap().commands.clone()
    }
}

async fn serve(listener: TcpListener, behaviours: Vec<Behaviour>, heard: Arc<Mutex<Heard>>) {
    let mut turns = behaviours.into_iter();
    let mut behaviour = turns.next().unwrap_or(Behaviour::Accept);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, behaviour.clone(), Arc::clone(&heard)));
        behaviour = turns.next().unwrap_or(behaviour);
    }
}

/// Ends when the client hangs up or the behaviour says so; errors of the connection end it too.
async fn converse(stream: TcpStream, behaviour: Behaviour, heard: Arc<Mutex<Heard>>) {
    let mut stream = BufReader::new(stream);
    match behaviour {
        Behaviour::SilentAtOnce => std::future::pending().await,
        Behaviour::Greet(line) => return say(&mut stream, line).await,
        _ => say(&mut stream, "220 sink").await,
    }
    while let Some(command) = hear(&mut stream).await {
        heard.lock().unwrap().commands.push(command.clone());
        match behaviour {
            Behaviour::Answer(word, line) if command.starts_with(word) => {
                say(&mut stream, line).await;
                continue;
            }
            Behaviour::SilentAt(word) if command.starts_with(word) => {
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        match command.get(..4) {
            Some("EHLO") => say(&mut stream, "250-sink\r\n250 AUTH PLAIN").await,
            Some("AUTH") => say(&mut stream, "235 welcome").await,
            Some("QUIT") => return say(&mut stream, "221 bye").await,
            Some("DATA") => {
                say(&mut stream, "354 go on").await;
                let mail = hear_mail(&mut stream).await;
                heard.lock().unwrap().mails.push(mail);
                if matches!(behaviour, Behaviour::DropAfterData) {
                    return;
                }
                say(&mut stream, "250 taken").await;
            }
            _ => say(&mut stream, "250 fine").await,
        }
    }
}

async fn say(stream: &mut BufReader<TcpStream>, line: &str) {
    let line = format!("{line}\r\n");
    // A client that has gone is seen at the next read.
    drop(stream.get_mut().write_all(line.as_bytes()).await);
}

async fn hear(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

async fn hear_mail(stream: &mut BufReader<TcpStream>) -> String {
    let mut mail = String::new();
    while let Some(line) = hear(stream).await {
        if line == "." {
            break;
        }
        mail.push_str(&line);
        mail.push('\n');
    }
    mail
}
