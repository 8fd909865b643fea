//! Whether one call, or two calls of one group, can fit detections: combinations of values are tried, with a bound of
//! work.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::field::GroupField;
use super::matcher::{Expr, Item};

/// Combinations of values that are tried, times what is asked of each; with more, detections are taken to be possible.
const TRIED_MAX: usize = 2_000_000;
/// Values that are compared with; with more, too.
const ASKED_MAX: usize = 1000;

/// What may still be done for some rules, one after the other: comparisons of a value, about.
///
/// Half of it is shared out evenly, and what one leaves of its share others may have, as all may have the other half.
/// So one that asks for much takes nothing from what those after it are sure of; and where all ask for a little too
/// much only the last ones go without.
pub(super) struct Work {
    left: Cell<usize>,
    /// What each rule is sure of, and how many are to come.
    share: usize,
    to_come: Cell<usize>,
    is_spent: Cell<bool>,
}

impl Work {
    pub(super) const fn new(max: usize, rules: usize) -> Self {
        let share = match max.checked_div(rules) {
            Some(even) => even / 2,
            None => 0,
        };
        let (left, to_come) = (Cell::new(max), Cell::new(rules));
        Self { left, share, to_come, is_spent: Cell::new(false) }
    }

    /// Goes on to the next rule.
    pub(super) fn next(&self) {
        self.to_come.set(self.to_come.get().saturating_sub(1));
        self.is_spent.set(false);
    }

    /// Whether something was not done for this rule.
    pub(super) const fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    /// False where it is not to be done; nor is anything then that comes after it for this rule.
    fn spend(&self, amount: usize) -> bool {
        let kept = self.share.saturating_mul(self.to_come.get());
        match self.left.get().checked_sub(amount).filter(|left| *left >= kept) {
            Some(left) if !self.is_spent.get() => self.left.set(left),
            _ => self.is_spent.set(true),
        }
        !self.is_spent.get()
    }
}

/// How many values a detection compares with.
pub(super) fn asked(expr: &Expr) -> usize {
    let mut asked = 0_usize;
    expr.each_item(&mut |item| asked = asked.saturating_add(item.tests_len()));
    asked
}

/// Whether one call can fit all detections, which compare with `asked` values. With `shared`, a call for each, that
/// have these fields in common. Where it is not known, true.
pub(super) fn are_possible(
    exprs: &[&Expr],
    asked: usize,
    shared: Option<&[GroupField]>,
    work: &Work,
) -> bool {
    if asked > ASKED_MAX || !work.spend(asked) {
        return true;
    }
    let views: Vec<View<'_>> =
        exprs.iter().enumerate().map(|(call, expr)| View { call, expr, shared }).collect();
    let trial = Trial::of(&views, asked, work);
    trial.is_none_or(|trial| trial.is_possible(&views, asked, work))
}

/// A detection of the calls that are looked for.
struct View<'a> {
    call: usize,
    expr: &'a Expr,
    shared: Option<&'a [GroupField]>,
}

/// What an item looks at: of which call, whether it is a question, and which, or else the field.
type Name<'a> = (usize, bool, &'a str);

/// What the items of some detections look at, and the values that tell all of it apart.
struct Trial<'a> {
    numbers: BTreeMap<Name<'a>, usize>,
    /// A variable each. None: the call has no value. Of a variable that stands for a question, whether it is so.
    values: Vec<Vec<Option<String>>>,
    combinations: usize,
}

/// A detection as truth tables over the variables.
enum Table {
    Item { variable: usize, holds: Vec<bool> },
    And(Vec<Table>),
    Or(Vec<Table>),
    Not(Box<Table>),
}

impl<'a> View<'a> {
    /// Questions whose answers are not told apart by values: they may be answered either way.
    fn is_question(&self, item: &Item) -> bool {
        !(item.has_one_value() || self.is_shared(item) && item.texts().is_some())
    }

    fn is_shared(&self, item: &Item) -> bool {
        let is_field = |field: &GroupField| {
            // A tool's name is asked with and without its namespace.
            *field != GroupField::ToolName && field.as_str() == item.field_name()
        };
        self.shared.is_some_and(|shared| shared.iter().any(is_field))
    }

    /// Of two calls, what they need not have in common is of its own.
    fn name_of(&self, item: &'a Item) -> Name<'a> {
        let own = if self.shared.is_none() || self.is_shared(item) { 0 } else { self.call };
        let is_question = self.is_question(item);
        (own, is_question, if is_question { item.asks() } else { item.field_name() })
    }
}

impl<'a> Trial<'a> {
    /// None where there is too much to try, which is seen before more of it is made than can be tried.
    fn of(views: &[View<'a>], asked: usize, work: &Work) -> Option<Self> {
        let mut items: BTreeMap<Name<'a>, Vec<&'a Item>> = BTreeMap::new();
        for view in views {
            view.expr
                .each_item(&mut |item| items.entry(view.name_of(item)).or_default().push(item));
        }
        let questions = items.keys().filter(|(_, is_question, _)| *is_question).count();
        let answers = u32::try_from(questions).ok().and_then(|number| 2_usize.checked_pow(number));
        let mut combinations = answers?;
        let mut trial = Self { numbers: BTreeMap::new(), values: Vec::new(), combinations };
        for (name, items) in items {
            let (_, is_question, _) = name;
            let values = if is_question { yes_no() } else { values(&items) };
            if !is_question {
                combinations = combinations.checked_mul(values.len())?;
            }
            let compared = items.iter().map(|item| item.tests_len()).sum::<usize>();
            let is_too_much = combinations.saturating_mul(asked) > TRIED_MAX;
            if is_too_much || !work.spend(compared.saturating_mul(values.len())) {
                return None;
            }
            trial.numbers.insert(name, trial.values.len());
            trial.values.push(values);
        }
        Some(Self { combinations, ..trial })
    }

    fn is_possible(&self, views: &[View<'a>], asked: usize, work: &Work) -> bool {
        let tables: Vec<Table> = views.iter().map(|view| self.table(view, view.expr)).collect();
        (0..self.combinations).any(|combination| {
            if !work.spend(asked) {
                return true;
            }
            let mut left = combination;
            let choose = |values: &Vec<Option<String>>| {
                let size = values.len().max(1);
                let choice = left % size;
                left /= size;
                choice
            };
            let chosen: Vec<usize> = self.values.iter().map(choose).collect();
            tables.iter().all(|table| table.holds(&chosen))
        })
    }

    fn table(&self, view: &View<'a>, expr: &'a Expr) -> Table {
        let all = |parts: &'a [Expr]| parts.iter().map(|part| self.table(view, part)).collect();
        match expr {
            Expr::And(parts) => Table::And(all(parts)),
            Expr::Or(parts) => Table::Or(all(parts)),
            Expr::Not(part) => Table::Not(Box::new(self.table(view, part))),
            Expr::Item(item) => {
                let name = view.name_of(item);
                let (_, is_question, _) = name;
                let variable = self.numbers.get(&name).copied().unwrap_or_default();
                let values = self.values.get(variable).map_or(&[][..], |values| values);
                let holds = |value: &Option<String>| {
                    if is_question { value.is_some() } else { item.holds_for(value.as_deref()) }
                };
                Table::Item { variable, holds: values.iter().map(holds).collect() }
            }
        }
    }
}

impl Table {
    fn holds(&self, chosen: &[usize]) -> bool {
        match self {
            Self::Item { variable, holds } => {
                let choice = chosen.get(*variable).and_then(|choice| holds.get(*choice));
                choice.copied().unwrap_or(true)
            }
            Self::And(parts) => parts.iter().all(|part| part.holds(chosen)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(chosen)),
            Self::Not(part) => !part.holds(chosen),
        }
    }
}

fn yes_no() -> Vec<Option<String>> {
    vec![None, Some(String::new())]
}

/// Values of one field that tell apart all that these items ask of it.
fn values(items: &[&Item]) -> Vec<Option<String>> {
    let Some(first) = items.first() else { return Vec::new() };
    let mut values = Vec::new();
    if first.may_be_missing() {
        values.push(None);
    }
    if let Some(words) = first.words() {
        values.extend(words.into_iter().map(|word| Some(word.to_owned())));
    } else if first.is_number() {
        // Two that nobody may ask for, and those beside each that is: numbers can be whole ones only.
        let asked = items.iter().flat_map(|item| item.numbers());
        let mut asked: Vec<f64> = asked.chain([0.0, 1.0]).collect();
        asked.sort_by(f64::total_cmp);
        let between: Vec<f64> =
            asked.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
        let beside =
            |number: &f64| [number - 1.0, number.floor(), *number, number.ceil(), number + 1.0];
        let around = asked.iter().flat_map(beside);
        let numbers = around.chain(between).filter(|number| first.can_be(*number));
        values.extend(numbers.map(|number| Some(number.to_string())));
    } else {
        let texts = items.iter().filter_map(|item| item.texts()).flatten();
        values.extend(texts.map(|text| Some(text.to_owned())));
        // And one that nobody asks for.
        values.push(Some("\u{0}".to_owned()));
    }
    values
}
