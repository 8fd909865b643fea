//! Ingest events: what reading a log showed about the log itself, so that rules can speak of it.

use super::{
    ArgValue, ArgView, Args, Call, CallId, Certainty, Dialect, EventKind, IdHasher, JoinedBy,
    Micros, OutcomeClass, Ran, RecordId, Sighting, Step, Text, Witness,
};

/// What happened to a log, or to Calltrail's own records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IngestCode {
    /// The file became shorter; what it held beyond is gone.
    Truncated,
    /// Other content stands in the file's place.
    Rewritten,
    /// Bytes that were seen and never read, or a hole of zeros.
    Gap,
    /// A line beyond the limit: nothing in it was looked at.
    OverlongLine,
    /// A line is dated well before the one in front of it.
    TimeBack,
    /// A line is dated ahead of the clock.
    ClockAhead,
    /// A log that was written to says nothing more.
    Silent,
    /// A client's log has no more records although logs that it joined went on, by their own times.
    WitnessSilent,
    /// The journal was changed or cut.
    JournalBroken,
    /// The database's write-ahead log was damaged and set aside.
    WalDamaged,
}

impl IngestCode {
    pub const ALL: [Self; 10] = [
        Self::Truncated,
        Self::Rewritten,
        Self::Gap,
        Self::OverlongLine,
        Self::TimeBack,
        Self::ClockAhead,
        Self::Silent,
        Self::WitnessSilent,
        Self::JournalBroken,
        Self::WalDamaged,
    ];

    /// Whether the records show it, all together: it is found again wherever they are read again, and goes when they no
    /// longer do. Anything else is noticed once.
    pub const fn is_of_records(self) -> bool {
        matches!(self, Self::WitnessSilent)
    }

    /// Whether a place in the log's content shows it; the others tell of the file, and are news whenever they are told.
    pub const fn is_of_content(self) -> bool {
        matches!(self, Self::Gap | Self::OverlongLine | Self::TimeBack | Self::ClockAhead)
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == word)
    }

    /// The word that rules and SQL know it by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Rewritten => "rewritten",
            Self::Gap => "gap",
            Self::OverlongLine => "overlong-line",
            Self::TimeBack => "time-back",
            Self::ClockAhead => "clock-ahead",
            Self::Silent => "silent",
            Self::WitnessSilent => "witness-silent",
            Self::JournalBroken => "journal-broken",
            Self::WalDamaged => "wal-damaged",
        }
    }
}

/// One thing that reading showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestEvent {
    pub code: IngestCode,
    /// When it was noticed; for what a log's own lines show, the time of the line in front.
    pub at: Micros,
    pub stream: Text,
    /// Where in the log it is.
    pub position: RecordId,
    /// Bytes concerned: lost, in the hole, or of the line.
    pub bytes: u64,
    /// How far back, ahead or silent, in whole seconds; 0 where that is not the matter.
    pub seconds: u64,
    /// Further ones of its kind that the same batch held and that are not told one by one.
    pub more: u64,
    /// The line that shows it, where one does, as the witness's format has it.
    pub line: Option<EventLine>,
}

/// The line that shows an ingest event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLine {
    pub witness: Witness,
    pub dialect: Dialect,
    /// Its own time.
    pub at: Option<Micros>,
}

impl IngestEvent {
    /// Names the event: seen again, it has the same id.
    pub fn id(&self) -> CallId {
        let mut hasher = IdHasher::new("ingest");
        hasher.text(self.code.as_str()).text(&self.stream).number(self.at.0.cast_unsigned());
        hasher.number(self.position.offset);
        CallId::from_hasher(&hasher)
    }

    /// The event as the rules see it: of kind ingest, its word as the code, its figures as arguments.
    pub fn to_call(&self) -> Call {
        let code = Text::from(self.code.as_str());
        let class = OutcomeClass::Unknown;
        Call {
            kind: EventKind::Ingest,
            id: self.id(),
            at: Some(self.at),
            stream: Text::clone(&self.stream),
            position: self.position,
            ended: None,
            duration_ms: None,
            tool: format!("log.{}", self.code.as_str()).into(),
            server: None,
            principal: None,
            client: None,
            actor: Text::clone(&self.stream),
            tenant: None,
            session: Text::clone(&self.stream),
            class,
            code: Text::clone(&code),
            decision: None,
            ran: Ran::Maybe,
            args: self.figures(),
            flags: Vec::new(),
            also: Vec::new(),
            request_id: None,
            group_id: None,
            trace_id: None,
            ask_to_answer_ms: None,
            sightings: self.line.map(|line| self.sighting(line, &code)).into_iter().collect(),
            discrepancies: Vec::new(),
        }
    }

    fn figures(&self) -> Args {
        let figures = [("bytes", self.bytes), ("more", self.more), ("seconds", self.seconds)];
        let value = |(name, figure): (&str, u64)| ArgValue {
            name: name.into(),
            text: figure.to_string().into(),
            hash: figure,
            chars: None,
            summarised: false,
        };
        let values = figures.into_iter().filter(|(_, figure)| *figure > 0).map(value).collect();
        Args { view: ArgView::Full, values, dropped: Vec::new() }
    }

    fn sighting(&self, line: EventLine, code: &Text) -> Sighting {
        let class = OutcomeClass::Unknown;
        let step = Step {
            record: self.position,
            length: self.bytes,
            at: line.at,
            class,
            code: Text::clone(code),
        };
        Sighting {
            witness: line.witness,
            dialect: line.dialect,
            stream: Text::clone(&self.stream),
            class,
            code: Text::clone(code),
            joined_by: JoinedBy::Alone,
            certainty: Certainty::Exact,
            attempt: 0,
            candidates: Vec::new(),
            steps: vec![step],
        }
    }
}

/// What an ingest event tells, as a sentence about the log without its subject and full stop; none for a tool call.
/// Holds nothing from a log.
pub fn event_words(call: &Call) -> Option<String> {
    if call.kind != EventKind::Ingest {
        return None;
    }
    let figure = |name: &str| {
        let found = call.args.values.iter().find(|value| &*value.name == name);
        found.and_then(|value| value.text.parse::<u64>().ok()).unwrap_or(0)
    };
    let (bytes, seconds, more) = (figure("bytes"), figure("seconds"), figure("more"));
    let unread = match bytes {
        0 => String::new(),
        _ => format!("; {bytes} bytes had been seen and never read"),
    };
    let words = match IngestCode::from_word(&call.code)? {
        IngestCode::Truncated => format!("became shorter{unread}"),
        IngestCode::Rewritten => format!("was replaced by other content{unread}"),
        IngestCode::Gap => {
            format!("lacks {bytes} bytes: gone before they were read, or a hole of zeros")
        }
        IngestCode::OverlongLine => {
            format!("holds a line of {bytes} bytes, too long to be looked at")
        }
        IngestCode::TimeBack => {
            format!("holds a line dated {seconds} s before the line in front of it")
        }
        IngestCode::ClockAhead => {
            format!("holds a line dated {seconds} s ahead of the clock at reading")
        }
        IngestCode::Silent => format!("was written to, and has said nothing for {seconds} s"),
        IngestCode::WitnessSilent => {
            format!(
                "said nothing for {seconds} s by the time of its lines, though calls that it should tell of went on"
            )
        }
        IngestCode::JournalBroken => "was changed or cut by somebody else".to_owned(),
        IngestCode::WalDamaged => {
            "was damaged and set aside; what it held is read again from the logs".to_owned()
        }
    };
    Some(if more > 0 { format!("{words} (and {more} more of the kind)") } else { words })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> IngestEvent {
        IngestEvent {
            code: IngestCode::Truncated,
            at: Micros(5),
            stream: "a.jsonl".into(),
            position: RecordId { generation: 3, offset: 100, index: 0 },
            bytes: 7,
            seconds: 0,
            more: 0,
            line: None,
        }
    }

    #[test]
    fn the_same_event_of_another_generation_has_the_same_id() {
        let mut moved = event();
        moved.position.generation = 4;
        moved.more = 2;
        assert_eq!(moved.id(), event().id());
        moved.position.offset = 101;
        assert_ne!(moved.id(), event().id());
    }

    #[test]
    fn rules_see_its_kind_word_and_figures() {
        let call = event().to_call();
        assert_eq!((call.kind, &*call.code), (EventKind::Ingest, "truncated"));
        let shown: Vec<_> = call.args.values.iter().map(|v| (&*v.name, &*v.text)).collect();
        assert_eq!(shown, [("bytes", "7")]);
        assert!(call.sightings.is_empty());
        let words = "became shorter; 7 bytes had been seen and never read";
        assert_eq!(event_words(&call).as_deref(), Some(words));
    }
}
