//! What a detection asks of a call: tests on field values, joined by and, or and not.

use std::collections::BTreeMap;

use regex::Regex;

use super::allowance::Allowance;
use super::bounds::Compare;
use super::cidr::Cidr;
use super::field::{Field, Subject};
use super::literal::{Compared, Literal, Place, Written};
use super::yaml::{Node, Value};
use crate::model::Discrepancy;

/// What a value that is compared takes in memory beside its text, in bytes, about.
const TEST_BYTES: usize = 64;
/// What an and, or or not takes.
const PART_BYTES: usize = 64;

/// A condition over one call.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Item(Item),
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
}

/// One field and what its value must be.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// As the rule says it, for people.
    asks: String,
    field: Field,
    tests: Vec<Test>,
    /// Every test must hold, each by any of the field's values; otherwise one is enough.
    all: bool,
}

#[derive(Clone, Debug)]
enum Test {
    /// Equal, ASCII letters in any case.
    Exact(String),
    Cased(String),
    Literal(Literal),
    Pattern(Regex),
    Network(Cidr),
    Number(Compare, f64),
    Exists(bool),
}

impl Expr {
    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Item(item) => item.matches(subject),
            Self::And(parts) => parts.iter().all(|part| part.matches(subject)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(subject)),
            Self::Not(part) => !part.matches(subject),
        }
    }

    /// What it takes in memory, about, in bytes: what stands for its texts is there once for
    /// all and counts elsewhere.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Item(item) => item.bytes(),
            Self::And(parts) | Self::Or(parts) => {
                parts.iter().map(Self::bytes).fold(PART_BYTES, usize::saturating_add)
            }
            Self::Not(part) => part.bytes().saturating_add(PART_BYTES),
        }
    }

    /// Compares with other numbers wherever their keys are asked, as the rule writes them.
    pub(super) fn set_numbers(&mut self, numbers: &BTreeMap<&str, f64>) {
        match self {
            Self::Item(item) => item.set_number(numbers),
            Self::And(parts) | Self::Or(parts) => {
                for part in parts {
                    part.set_numbers(numbers);
                }
            }
            Self::Not(part) => part.set_numbers(numbers),
        }
    }

    /// Calls `each` with every item.
    pub(super) fn each_item<'e>(&'e self, each: &mut dyn FnMut(&'e Item)) {
        match self {
            Self::Item(item) => each(item),
            Self::And(parts) | Self::Or(parts) => {
                for part in parts {
                    part.each_item(each);
                }
            }
            Self::Not(part) => part.each_item(each),
        }
    }

    /// Whether it says anything of the kind of events: one that does not is about calls alone.
    pub(super) fn asks_for_kind(&self) -> bool {
        match self {
            Self::Item(item) => item.field.is_kind(),
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::asks_for_kind),
            Self::Not(part) => part.asks_for_kind(),
        }
    }
}

impl Item {
    /// Compiles `field|modifier: value`; the error is the reason to refuse it.
    pub(super) fn parse(key: &str, node: &Node, allowance: &mut Allowance) -> Result<Self, String> {
        let mut words = key.split('|');
        let field = Field::parse(words.next().unwrap_or_default())?;
        let mut how = None;
        let (mut all, mut cased) = (false, false);
        let mut flags = String::new();
        for word in words {
            match word {
                "all" => all = true,
                "cased" => cased = true,
                // Sigma's flags of regular expressions.
                "i" | "m" | "s" if matches!(how, Some(Modifier::Regex)) => flags.push_str(word),
                _ => {
                    let modifier = Modifier::parse(word)?;
                    if how.replace(modifier).is_some() {
                        return Err(format!("`{key}` has two modifiers that exclude each other"));
                    }
                }
            }
        }
        let how = How { modifier: how, cased, flags: &flags };
        let values = node.list().unwrap_or(std::slice::from_ref(node));
        if values.is_empty() {
            return Err(format!("`{key}` has an empty list: it could never match"));
        }
        if matches!(how.modifier, Some(Modifier::Exists)) && values.len() > 1 {
            return Err(format!("`{key}` takes true or false, and not several: any would fit"));
        }
        let tests = values
            .iter()
            .map(|value| test(&field, how, value, allowance))
            .collect::<Result<Vec<_>, _>>()?;
        if all && tests.iter().any(|test| matches!(test, Test::Exists(_))) {
            return Err(format!("`all` means nothing beside what `{key}` asks"));
        }
        Ok(Self { asks: asks(key, values), field, tests, all })
    }

    /// Asks for calls that a witness should tell of and does not.
    pub(super) fn unwitnessed() -> Self {
        let word = Discrepancy::UNWITNESSED;
        Self {
            asks: format!("discrepancy: {word}"),
            field: Field::discrepancy(),
            tests: vec![Test::Exact(word.to_owned())],
            all: false,
        }
    }

    /// The key by which it is asked, where it compares with numbers alone.
    pub(super) fn number_key(&self) -> Option<&str> {
        let is_number = |test: &Test| matches!(test, Test::Number(..));
        let key = self.asks.split_once(": ").map(|(key, _)| key)?;
        self.tests.iter().all(is_number).then_some(key)
    }

    fn set_number(&mut self, numbers: &BTreeMap<&str, f64>) {
        let number = self.number_key().and_then(|key| numbers.get_key_value(key));
        let (Some((key, number)), Some(Test::Number(compare, _))) = (number, self.tests.first())
        else {
            return;
        };
        self.tests = vec![Test::Number(*compare, *number)];
        self.asks = format!("{key}: {number}");
    }

    /// What it takes in memory, about.
    fn bytes(&self) -> usize {
        self.tests.len().saturating_mul(TEST_BYTES).saturating_add(2 * self.asks.len())
    }

    /// The values that it compares with.
    pub(super) const fn tests_len(&self) -> usize {
        self.tests.len()
    }

    /// What it asks, as the rule says it.
    pub(super) fn asks(&self) -> &str {
        &self.asks
    }

    pub(super) fn field_name(&self) -> &str {
        self.field.name()
    }

    /// True where a call has one value of the field at most, and that is one of a few words or a
    /// number.
    pub(super) const fn has_one_value(&self) -> bool {
        self.field.has_one_value()
    }

    pub(super) const fn is_number(&self) -> bool {
        self.field.is_number()
    }

    pub(super) const fn may_be_missing(&self) -> bool {
        self.field.may_be_missing()
    }

    /// Whether the field can be that number.
    pub(super) fn can_be(&self, number: f64) -> bool {
        self.field.can_be(number)
    }

    pub(super) fn words(&self) -> Option<Vec<&'static str>> {
        self.field.words()
    }

    /// The numbers that it compares with.
    pub(super) fn numbers(&self) -> impl Iterator<Item = f64> {
        self.tests.iter().filter_map(|test| match test {
            Test::Number(_, number) => Some(*number),
            _ => None,
        })
    }

    /// The texts that it compares with; none where it asks for more than one of some texts.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        let mut texts = Vec::new();
        for test in &self.tests {
            match test {
                Test::Exact(text) | Test::Cased(text) => texts.push(text.as_str()),
                Test::Exists(_) => {}
                _ => return None,
            }
        }
        Some(texts)
    }

    /// Whether it holds for a call with this value alone, or with none.
    pub(super) fn holds_for(&self, value: Option<&str>) -> bool {
        let value = value.map(Compared::new);
        let holds = |test: &Test| match (test, &value) {
            (test, Some(value)) => test.holds(value),
            (test, None) => matches!(test, Test::Exists(false)),
        };
        if self.all { self.tests.iter().all(holds) } else { self.tests.iter().any(holds) }
    }

    /// The values that the field has in the call, as they are compared.
    pub(super) fn values(&self, subject: &Subject<'_>) -> Vec<String> {
        let mut values = Vec::new();
        self.field.any(subject, &mut |value| {
            values.push(value.to_owned());
            false
        });
        values
    }

    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        if self.all {
            let values = self.values(subject);
            let values: Vec<Compared<'_>> =
                values.iter().map(|value| Compared::new(value)).collect();
            return self.tests.iter().all(|test| values.iter().any(|value| test.holds(value)));
        }
        // Value by value, so that each is read once, however many texts it is compared with.
        let holds = self.field.any(subject, &mut |value| {
            let value = Compared::new(value);
            self.tests.iter().any(|test| test.holds(&value))
        });
        let may_be_missing = || self.tests.iter().any(|test| matches!(test, Test::Exists(false)));
        holds || (may_be_missing() && !self.field.any(subject, &mut |_| true))
    }
}

impl Test {
    /// Whether it holds for a value that is there.
    fn holds(&self, value: &Compared<'_>) -> bool {
        let text = value.text;
        match self {
            Self::Exact(wanted) => wanted.eq_ignore_ascii_case(text),
            Self::Cased(wanted) => wanted == text,
            Self::Literal(literal) => literal.holds(value),
            Self::Pattern(regex) => regex.is_match(text),
            Self::Network(network) => network.holds(text),
            Self::Number(compare, number) => {
                text.parse::<f64>().is_ok_and(|value| compare.holds(value, *number))
            }
            Self::Exists(wanted) => *wanted,
        }
    }
}

#[derive(Clone, Copy)]
enum Modifier {
    Contains,
    StartsWith,
    EndsWith,
    Regex,
    Cidr,
    Number(Compare),
    Exists,
}

impl Modifier {
    fn parse(word: &str) -> Result<Self, String> {
        Ok(match word {
            "contains" => Self::Contains,
            "startswith" => Self::StartsWith,
            "endswith" => Self::EndsWith,
            "re" => Self::Regex,
            "cidr" => Self::Cidr,
            "lt" => Self::Number(Compare::Less),
            "lte" => Self::Number(Compare::LessOrEqual),
            "gt" => Self::Number(Compare::Greater),
            "gte" => Self::Number(Compare::GreaterOrEqual),
            "exists" => Self::Exists,
            _ => {
                return Err(format!(
                    "the modifier `{word}` is not supported; there are contains, startswith, \
                     endswith, re, cidr, cased, lt, lte, gt, gte, exists and all"
                ));
            }
        })
    }
}

/// `field|modifier: value, value`.
fn asks(key: &str, values: &[Node]) -> String {
    let shown = |node: &Node| match &node.value {
        Value::Text(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => "null".to_owned(),
    };
    let values: Vec<String> = values.iter().map(shown).collect();
    format!("{key}: {}", values.join(", "))
}

/// The modifiers of one item.
#[derive(Clone, Copy)]
struct How<'a> {
    modifier: Option<Modifier>,
    cased: bool,
    /// Of a regular expression.
    flags: &'a str,
}

fn test(
    field: &Field,
    how: How<'_>,
    node: &Node,
    allowance: &mut Allowance,
) -> Result<Test, String> {
    let name = field.name();
    let How { modifier: how, cased, flags } = how;
    if field.is_time() && !matches!(how, Some(Modifier::Exists)) {
        return Err(format!("`{name}` is a time: only `{name}|exists` can be asked"));
    }
    let takes_case =
        matches!(how, None | Some(Modifier::Contains | Modifier::StartsWith | Modifier::EndsWith));
    if cased && !takes_case {
        return Err(format!("`cased` means nothing beside the other modifier of `{name}`"));
    }
    match (how, &node.value) {
        (Some(Modifier::Exists), Value::Bool(wanted)) => Ok(Test::Exists(*wanted)),
        (Some(Modifier::Exists), _) => Err(format!("`{name}|exists` takes true or false")),
        (Some(Modifier::Number(compare)), _) => {
            if !field.is_number() && !field.is_argument() {
                return Err(format!("`{name}` is no number, so it is not less or greater"));
            }
            let number = node.number().ok_or_else(|| {
                format!("`{name}` is compared with a number, not with {}", node.kind())
            })?;
            Ok(Test::Number(compare, number))
        }
        (Some(Modifier::Regex), Value::Text(text)) => pattern(flags, text, allowance)
            .map(Test::Pattern)
            .map_err(|error| format!("`{name}|re`: {error}")),
        (Some(Modifier::Cidr), Value::Text(text)) => {
            let network = Cidr::parse(text).map(Test::Network);
            network.ok_or_else(|| format!("`{name}|cidr` takes networks such as 10.0.0.0/8"))
        }
        (how, Value::Text(text)) => text_test(field, how, cased, text, allowance),
        (None, Value::Null) => Ok(Test::Exists(false)),
        (None, Value::Bool(value)) if field.is_yes_no() => {
            Ok(Test::Exact(if *value { "yes" } else { "no" }.to_owned()))
        }
        (None, Value::Bool(value)) if field.is_argument() => Ok(Test::Cased(value.to_string())),
        (None, _) if field.is_number() || field.is_argument() => {
            let number = node.number().ok_or_else(|| not_a_value(name, node))?;
            Ok(Test::Number(Compare::Equal, number))
        }
        (None, Value::Int(number)) => text_test(field, None, cased, &number.to_string(), allowance),
        _ => Err(not_a_value(name, node)),
    }
}

fn pattern(flags: &str, text: &str, allowance: &mut Allowance) -> Result<Regex, String> {
    if flags.is_empty() {
        return allowance.pattern(text);
    }
    allowance.pattern(&format!("(?{flags}:{text})"))
}

fn not_a_value(name: &str, node: &Node) -> String {
    format!("`{name}` cannot be compared with {}; quote it if it is a text", node.kind())
}

fn text_test(
    field: &Field,
    how: Option<Modifier>,
    cased: bool,
    text: &str,
    allowance: &mut Allowance,
) -> Result<Test, String> {
    if field.is_number() {
        return Err(format!("`{}` is a number and is compared with numbers", field.name()));
    }
    let written = Written::read(text);
    if how.is_none()
        && let Written::Literal { text: plain, is_open_before: false, is_open_behind: false } =
            &written
    {
        if let Some(words) = field.words()
            && !words.iter().any(|word| word.eq_ignore_ascii_case(text))
        {
            let (name, words) = (field.name(), words.join(", "));
            return Err(format!("`{name}` is never `{text}`; it is one of {words}"));
        }
        if cased {
            return Ok(Test::Cased(plain.clone()));
        }
        if text.is_ascii() {
            return Ok(Test::Exact(plain.clone()));
        }
    }
    let before = matches!(how, Some(Modifier::Contains | Modifier::EndsWith));
    let behind = matches!(how, Some(Modifier::Contains | Modifier::StartsWith));
    let made = match written {
        Written::Literal { text, is_open_before, is_open_behind } => {
            let place = Place::of(before || is_open_before, behind || is_open_behind);
            allowance.literal(&text, place, cased).map(Test::Literal)
        }
        Written::Pattern(body) => {
            let flags = if cased { "(?s)" } else { "(?is)" };
            let (start, end) = (if before { "" } else { "^" }, if behind { "" } else { "$" });
            allowance.pattern(&format!("{flags}{start}(?:{body}){end}")).map(Test::Pattern)
        }
    };
    made.map_err(|error| format!("`{}`: {error}", field.name()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::detect::fixture::{Shape, call};
    use crate::detect::yaml;
    use crate::model::{ArgValue, Call, Labels, Tri};

    /// The call that every item below is tried on.
    fn subject() -> Call {
        let mut call = Call::clone(&call(&Shape::at(1, "mcp__files__read_file"), 0, 0));
        let arg = |name: &str, text: &str| ArgValue {
            name: name.into(),
            text: text.into(),
            hash: 0,
            chars: None,
            summarised: false,
        };
        call.args.values = vec![
            arg("limit", "20"),
            arg("host", r#""10.1.2.3""#),
            arg("share", r#""\\\\srv\\data""#),
            arg("path", r#""C:\\Ünï\\a*b.TXT""#),
        ];
        call.args.dropped = vec!["query".into()];
        call.flags = vec!["signal:override".into(), "too_large".into()];
        call.also = vec![("principal".into(), "eve".into())];
        call.duration_ms = Some(12.5);
        call
    }

    fn matches(item: &str) -> bool {
        let nodes = yaml::documents(item).unwrap();
        let entry = &nodes[0].map().unwrap()[0];
        let item = Item::parse(&entry.key, &entry.node, &mut Allowance::default()).unwrap();
        let labels = |_: &Call| Labels { sensitive: Tri::Yes, ..Labels::default() };
        let call = Arc::new(subject());
        Expr::Item(item).matches(&Subject::new(&call, &labels))
    }

    #[test]
    fn items_that_fit() {
        for item in [
            "tool.name: READ_file",
            "tool.name: mcp__files__read_file",
            "tool.name: '*files*'",
            "tool.name|cased: read_file",
            "tool.name|startswith: mcp__",
            "tool.name|endswith: [x, _FILE]",
            "tool.name|contains|all: [files, read]",
            "tool.name|re: '^read_f.le$'",
            "tool.name|re|i: '^READ_f.le$'",
            "tool.name: 'mcp__*__read_????'",
            "tool.name: 'mcp__***__read_?***'",
            "args.host|cidr: [192.168.0.0/16, 10.0.0.0/8]",
            "args.share: '\\\\\\\\srv\\\\*'",
            "args.share: '\\\\\\\\srv\\data'",
            "args.share|endswith: '\\data'",
            "attempts: 1",
            "attempts|lt: 2",
            "tool.sensitive: yes",
            "tool.sensitive: true",
            "tool.outbound: unknown",
            "principal: ann",
            "principal: eve",
            "tenant: null",
            "tenant|exists: false",
            "flags: too_large",
            "flags|all: [too_large, 'signal:*']",
            "args.names: query",
            "args.limit: 20",
            "args.limit|gte: 20",
            "args.path: 'c:\\ünï\\a\\*b.txt'",
            "args.path|contains: 'ÜNÏ'",
            "args.path|contains: ['x', '*A\\**']",
            "args.path|cased|contains: 'Ünï'",
            "args.path|contains: ''",
            "args.path|startswith: 'C:\\ünï'",
            "args.path|startswith: '*B.txt'",
            "args.path|endswith: 'c:*'",
            "args.path|contains: 'ü?ï*.t'",
            "args.path: 'c:\\ü*'",
            "args.path: '*'",
            "tenant: [null, x]",
            "tenant: [x, null]",
            "flags|contains|all: [SIGNAL, large]",
            "duration_ms|lt: 12.6",
            "duration_ms: 12.5",
            "ran: yes",
            "code: 'o?'",
            "kind: call",
            "at|exists: true",
        ] {
            assert!(matches(item), "{item}");
        }
    }

    #[test]
    fn items_that_do_not_fit() {
        for item in [
            "tool.name: read",
            "tool.name|cased: READ_file",
            "tool.name|contains|all: [files, write]",
            "tool.name|re: '^READ'",
            "tool.name: 'mcp__?__read_file'",
            "args.host|cidr: 11.0.0.0/8",
            "args.share: 'srv\\*'",
            "attempts|gte: 2",
            "tool.sensitive: no",
            "tool.outbound: no",
            "principal: bob",
            "principal: null",
            "flags: too",
            "args.limit|gt: 20",
            "args.limit: 2",
            "args.path: 'c:\\ünï\\axb.txt'",
            "args.path|cased|contains: 'ÜNÏ'",
            "args.path|cased: '*txt'",
            "args.path|startswith: ünï",
            "args.path|endswith: 'b.tx'",
            "args.path|contains: 'ü??ï'",
            "args.path: ünï",
            "flags|contains|all: [signal, small]",
            "tenant: ''",
            "args.query|contains: ''",
            "principal: [bob, null]",
            "args.query|exists: true",
            "duration_ms|lt: 12.5",
            "ended|exists: true",
        ] {
            assert!(!matches(item), "{item}");
        }
    }
}
