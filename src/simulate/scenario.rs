//! What to simulate.

use crate::model::Micros;

/// The farthest the server's clock may be from the client's: joins look five seconds around a call.
const CLOCK_OFFSET_MS_LIMIT: u32 = 3_000;
/// The longest a line may be held back: a log that goes back further in time would look tampered
/// with.
const LATENESS_MS_LIMIT: u32 = 240_000;

/// A world of people and agents that call tools, and how often one of them is attacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The same seed gives the same bytes, on every machine.
    pub seed: u64,
    /// The first working sessions begin soon after.
    pub start: Micros,
    /// Calls to make, attacks included.
    pub calls: u64,
    /// Tenants of the ticket server. With fewer than two nobody can touch a second one.
    pub tenants: Vec<String>,
    /// Principals of the ticket server (dialect `tenant`).
    pub ticket_users: u32,
    /// Desks with a client and a file server that both log (dialect `two-sided`).
    pub desks: u32,
    /// Stdio proxies in front of a note server (dialect `stdio-proxy`).
    pub proxies: u32,
    /// Callers behind the client gate (dialect `gate`).
    pub gate_users: u32,
    /// Stacks of witnesses: clients, proxies or gates, and servers that all log the same calls.
    pub stacks: u32,
    /// How far a desk's server clock may be from its client's, in milliseconds; at most 3,000
    /// counts.
    pub clock_offset_ms_max: u32,
    /// How long a line may be held back before it is written, in milliseconds; at most 240,000
    /// counts.
    pub lateness_ms_max: u32,
    /// One attack for so many calls; 0 for none.
    pub attack_every: u64,
    /// The kinds of attack, taken in turn. Those that no part of the scenario can show are passed
    /// over.
    pub attacks: Vec<AttackKind>,
    /// What makes it hard to see which records tell of the same call.
    pub noise: Noise,
}

/// What makes it hard to see which records tell of the same call. With any of it an attack may leave
/// too few traces for its alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noise {
    /// Records that never reach their log.
    pub lost_percent: u32,
    /// A stack's calls that belong to a run of identical ones, at once or one after the other.
    pub identical_percent: u32,
    /// A stack's failed calls that are made again.
    pub retried_percent: u32,
    /// Records that reach their log late, up to an hour, because the log stands still meanwhile.
    pub late_percent: u32,
    /// How far the clock of a log other than a client's may be off, in milliseconds.
    pub skew_ms_max: u32,
    /// How far such a clock may go wrong in a day, in milliseconds.
    pub drift_ms_a_day_max: u32,
    /// Such clocks that are set once, by up to ten seconds.
    pub stepped_percent: u32,
    /// How far such a clock may ever be off, in milliseconds: whoever keeps it stops it there. 0 for any distance.
    pub off_ms_max: u32,
}

impl Scenario {
    /// A middling office: every dialect, every kind of attack, one attack in 500 calls.
    pub fn new(seed: u64, start: Micros, calls: u64) -> Self {
        Self {
            seed,
            start,
            calls,
            tenants: ["acme", "globex", "initech", "umbrella"].map(str::to_string).to_vec(),
            ticket_users: 16,
            desks: 8,
            proxies: 4,
            gate_users: 8,
            stacks: 0,
            clock_offset_ms_max: 900,
            lateness_ms_max: 20_000,
            attack_every: 500,
            attacks: AttackKind::ALL.to_vec(),
            noise: Noise::default(),
        }
    }

    /// In microseconds.
    pub(super) fn clock_offset_max(&self) -> i64 {
        i64::from(self.clock_offset_ms_max.min(CLOCK_OFFSET_MS_LIMIT)) * 1000
    }

    /// In microseconds.
    pub(super) fn lateness_max(&self) -> i64 {
        i64::from(self.lateness_ms_max.min(LATENESS_MS_LIMIT)) * 1000
    }
}

/// An attack, named after the rule that is to notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttackKind {
    /// A page a stranger wrote is read, then customers' tickets, and then something is sent out.
    TrifectaSignature,
    /// Access is refused again and again, and then it works.
    DenialsThenSuccess,
    /// A principal reads another tenant's ticket.
    FirstCrossTenant,
    /// A session searches as fast as it can.
    CallBurst,
    /// The client refused a deletion and the server did it all the same.
    PolicyBypass,
    /// A tool is no longer what a person approved.
    DefinitionChanged,
}

impl AttackKind {
    pub const ALL: [Self; 6] = [
        Self::TrifectaSignature,
        Self::DenialsThenSuccess,
        Self::FirstCrossTenant,
        Self::CallBurst,
        Self::PolicyBypass,
        Self::DefinitionChanged,
    ];

    /// The name of the rule that must fire.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::TrifectaSignature => "trifecta-signature",
            Self::DenialsThenSuccess => "denials-then-success",
            Self::FirstCrossTenant => "first-cross-tenant",
            Self::CallBurst => "call-burst",
            Self::PolicyBypass => "policy-bypass",
            Self::DefinitionChanged => "definition-changed",
        }
    }

    /// The kind whose rule has that name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.rule() == word)
    }

    /// Rules that may fire besides, because they look for the same thing in another way.
    pub(super) const fn may_also(self) -> &'static [&'static str] {
        match self {
            Self::TrifectaSignature => &["trifecta-session"],
            _ => &[],
        }
    }
}
