//! Values of a person's own query as JSON: what a type means, not how it is stored.

use duckdb::types::{TimeUnit, Value as Sql};
use serde_json::{Map, Value as Json};

use crate::model::Micros;

/// Numbers that JSON holds exactly stay numbers; times become RFC 3339, dates and intervals what people write.
pub(super) fn to_json(value: Sql) -> Json {
    match value {
        Sql::Null => Json::Null,
        Sql::Boolean(value) => value.into(),
        Sql::TinyInt(value) => value.into(),
        Sql::SmallInt(value) => value.into(),
        Sql::Int(value) => value.into(),
        Sql::BigInt(value) => value.into(),
        Sql::UTinyInt(value) => value.into(),
        Sql::USmallInt(value) => value.into(),
        Sql::UInt(value) => value.into(),
        Sql::UBigInt(value) => value.into(),
        Sql::HugeInt(value) => {
            i64::try_from(value).map_or_else(|_| value.to_string().into(), Json::from)
        }
        Sql::UHugeInt(value) => {
            u64::try_from(value).map_or_else(|_| value.to_string().into(), Json::from)
        }
        Sql::Float(value) => value.into(),
        Sql::Double(value) => value.into(),
        Sql::Decimal(value) => {
            let text = value.to_string();
            serde_json::from_str(&text).unwrap_or(Json::String(text))
        }
        Sql::Text(value) | Sql::Enum(value) => value.into(),
        Sql::Timestamp(unit, value) => instant(unit, value).into(),
        Sql::Date32(days) => date(days).into(),
        Sql::Time64(unit, value) => clock(unit.to_micros(value)).into(),
        Sql::Interval { months, days, nanos } => interval(months, days, nanos / 1000).into(),
        Sql::Blob(bytes) | Sql::Geometry(bytes) => hex(&bytes).into(),
        Sql::List(values) | Sql::Array(values) => values.into_iter().map(to_json).collect(),
        Sql::Struct(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), to_json(value.clone())))
            .collect::<Map<_, _>>()
            .into(),
        Sql::Map(entries) => entries
            .iter()
            .map(|(key, value)| (key_text(key), to_json(value.clone())))
            .collect::<Map<_, _>>()
            .into(),
        Sql::Union(value) => to_json(*value),
        // The type may grow; what is not known here is told in its own words.
        other => format!("{other:?}").into(),
    }
}

fn key_text(key: &Sql) -> String {
    match to_json(key.clone()) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

/// DuckDB's infinities are no instants.
fn instant(unit: TimeUnit, value: i64) -> String {
    match unit.to_micros(value) {
        i64::MAX => "infinity".to_owned(),
        micros if micros == -i64::MAX => "-infinity".to_owned(),
        micros => Micros(micros).to_rfc3339(),
    }
}

fn date(days: i32) -> String {
    let at = Micros(i64::from(days).saturating_mul(Micros::DAY));
    at.to_datetime().format("%Y-%m-%d").to_string()
}

fn clock(micros: i64) -> String {
    let (seconds, rest) = (micros / Micros::SECOND, micros % Micros::SECOND);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:06}") };
    format!("{hours:02}:{minutes:02}:{:02}{fraction}", seconds % 60)
}

/// As DuckDB writes it: `1 month 2 days 03:04:05`.
fn interval(months: i32, days: i32, micros: i64) -> String {
    let part = |count: i32, one: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {one}s")),
    };
    let time = (micros != 0 || (months == 0 && days == 0)).then(|| {
        let sign = if micros < 0 { "-" } else { "" };
        format!("{sign}{}", clock(micros.saturating_abs()))
    });
    let parts: Vec<String> =
        [part(months, "month"), part(days, "day"), time].into_iter().flatten().collect();
    parts.join(" ")
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(sql: &str) -> Json {
        let connection = duckdb::Connection::open_in_memory().unwrap();
        connection
            .query_row(&format!("select {sql}"), [], |row| Ok(to_json(row.get_ref(0)?.to_owned())))
            .unwrap()
    }

    #[test]
    fn values_are_what_people_mean() {
        assert_eq!(ask("date '2026-01-05'"), "2026-01-05");
        assert_eq!(ask("timestamp '2026-01-05 07:00:00.5'"), "2026-01-05T07:00:00.500000Z");
        assert_eq!(ask("interval '1 month 2 days 3 hours'"), "1 month 2 days 03:00:00");
        assert_eq!(ask("timestamp '2026-01-05' - timestamp '2026-01-04 22:58:59'"), "01:01:01");
        assert_eq!(ask("1.50::decimal(9, 2)").to_string(), "1.5");
        assert_eq!(ask("time '10:00:00'"), "10:00:00");
        assert_eq!(ask("{'a': 1, 'b': [true]}"), serde_json::json!({ "a": 1, "b": [true] }));
        assert_eq!(ask("map {'a': 1}"), serde_json::json!({ "a": 1 }));
        assert_eq!(ask("timestamp 'infinity'"), "infinity");
        assert_eq!(ask("sum(range) from range(10)"), 45);
    }
}
