//! A proxied connection: its client numbers its requests in the order in which it sends them.

use std::collections::VecDeque;

use super::line::Message;

/// Requests whose numbers are remembered: more never wait at once.
const ASKED_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Connection {
    next: u64,
    /// Keys and numbers of the last requests, the newest first.
    asked: VecDeque<(u64, u64)>,
}

impl Connection {
    /// One whose next request has that number.
    pub(super) fn begun(next: u64) -> Self {
        Self { next, asked: VecDeque::new() }
    }

    /// The number of what the message tells of; 0 where it has none. Messages come in the order in
    /// which the proxy sees them, those whose lines get lost included.
    pub(super) fn number(&mut self, message: &Message) -> u64 {
        match message {
            Message::None => 0,
            Message::Asks { key, is_first } => {
                let number = if *is_first { 0 } else { self.next };
                self.next = number + 1;
                self.asked.push_front((*key, number));
                self.asked.truncate(ASKED_MAX);
                number
            }
            Message::Answers { key, .. } => {
                let mut asked = self.asked.iter();
                asked.find(|(asked, _)| asked == key).map_or(0, |(_, number)| *number)
            }
        }
    }
}
