//! How people name an alert: by its id, by the first digits of it, or by the page they look at.

use std::str::FromStr;

use anyhow::anyhow;

use super::access;
use super::alerts::{told, unexpected};
use super::failure::Failure;
use super::output::id_line;
use crate::config::Config;
use crate::daemon::control::{Ask, Tell};
use crate::model::AlertId;
use crate::store::AlertFilter;

/// Fewer digits name too many alerts.
const DIGITS_MIN: usize = 4;
/// Candidates that are told of an ambiguous beginning.
const CANDIDATES_MAX: usize = 10;

/// An alert as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Id(AlertId),
    /// The first digits of an id, in lowercase.
    Beginning(String),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let name = text
            .rsplit_once("/incidents/")
            .map_or(text, |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
        if let Ok(id) = name.parse() {
            return Ok(Self::Id(id));
        }
        let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex && (DIGITS_MIN..32).contains(&name.len()) {
            return Ok(Self::Beginning(name.to_ascii_lowercase()));
        }
        Err(format!(
            "an id is 32 hexadecimal digits; the first {DIGITS_MIN} or more of them do, and so does \
             the address of an incident's page"
        ))
    }
}

/// The alert that is meant; an id that is whole is not looked up.
pub(super) fn resolve(config: &Config, wanted: &Wanted) -> Result<AlertId, Failure> {
    let beginning = match wanted {
        Wanted::Id(id) => return Ok(*id),
        Wanted::Beginning(beginning) => beginning,
    };
    let Tell::Alerts { alerts } =
        told(access::ask(config, Ask::Alerts { filter: AlertFilter::default() })?)?
    else {
        return Err(unexpected());
    };
    let found: Vec<_> =
        alerts.iter().filter(|alert| alert.id.to_string().starts_with(beginning)).collect();
    match found.as_slice() {
        [] => Err(Failure::no_input(anyhow!("no alert has an id that begins with {beginning}"))),
        [alert] => Ok(alert.id),
        many => {
            let mut lines: Vec<String> =
                many.iter().take(CANDIDATES_MAX).map(|alert| id_line(alert)).collect();
            if many.len() > CANDIDATES_MAX {
                lines.push(format!("  and {} more", many.len() - CANDIDATES_MAX));
            }
            Err(Failure::data(anyhow!(
                "{} alerts have ids that begin with {beginning}; give more digits:\n{}",
                many.len(),
                lines.join("\n")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_beginnings_and_addresses_name_alerts() {
        let id = "0123456789abcdef0123456789abcdef";
        let whole = Ok(Wanted::Id(id.parse().unwrap()));
        assert_eq!(id.parse(), whole);
        let address = format!("http://127.0.0.1:7700/incidents/{id}?level=high#calls");
        assert_eq!(address.parse(), whole);
        assert_eq!("01AB".parse(), Ok(Wanted::Beginning("01ab".to_owned())));
        for wrong in ["012", "xyz0", "", &format!("{id}0"), "http://host/incidents/"] {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
    }
}
