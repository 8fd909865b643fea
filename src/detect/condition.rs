//! The grammar of `condition:`: and, or, not, parentheses, `1 of x*`, `all of them`.

use std::collections::{BTreeMap, BTreeSet};

use super::allowance::Allowance;
use super::field::did_you_mean;
use super::matcher::Expr;

/// Parentheses and nots deeper than this are refused: no person writes them, and recursion has a
/// limit.
const DEPTH_MAX: usize = 64;

/// Compiles a condition over named selections; the error is the reason to refuse it.
pub(super) fn compile(
    text: &str,
    selections: &[(String, Expr)],
    allowance: &mut Allowance,
) -> Result<Expr, String> {
    if text.contains('|') {
        return Err(
            "aggregations in a condition (`|`) are not supported; write a correlation".into()
        );
    }
    let tokens = tokens(text);
    let by_name = selections.iter().map(|(name, expr)| (name.as_str(), expr)).collect();
    let used = BTreeSet::new();
    let mut parser = Parser { tokens: &tokens, selections, by_name, used, depth: 0, allowance };
    let expr = parser.or()?;
    if let Some(rest) = parser.peek() {
        return Err(format!("the condition does not end where `{rest}` stands"));
    }
    let unused = selections.iter().find(|(name, _)| !parser.used.contains(name.as_str()));
    match unused {
        Some((name, _)) => Err(format!("the condition does not use the selection `{name}`")),
        None => Ok(expr),
    }
}

fn tokens(text: &str) -> Vec<String> {
    text.replace('(', " ( ").replace(')', " ) ").split_whitespace().map(str::to_owned).collect()
}

struct Parser<'a> {
    tokens: &'a [String],
    selections: &'a [(String, Expr)],
    by_name: BTreeMap<&'a str, &'a Expr>,
    used: BTreeSet<&'a str>,
    depth: usize,
    allowance: &'a mut Allowance,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.first().map(String::as_str)
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn next_is(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word));
        if found {
            self.next();
        }
        found
    }

    fn or(&mut self) -> Result<Expr, String> {
        let mut parts = vec![self.and()?];
        while self.next_is("or") {
            parts.push(self.and()?);
        }
        Ok(single(parts, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr, String> {
        let mut parts = vec![self.not()?];
        while self.next_is("and") {
            parts.push(self.not()?);
        }
        Ok(single(parts, Expr::And))
    }

    fn not(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the condition is nested more than {DEPTH_MAX} deep"));
        }
        let expr =
            if self.next_is("not") { Expr::Not(Box::new(self.not()?)) } else { self.operand()? };
        self.depth -= 1;
        Ok(expr)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        let Some(word) = self.next() else {
            return Err("the condition ends too early".into());
        };
        if word == "(" {
            let expr = self.or()?;
            return if self.next_is(")") {
                Ok(expr)
            } else {
                Err("a parenthesis in the condition is not closed".into())
            };
        }
        if self.peek().is_some_and(|next| next.eq_ignore_ascii_case("of")) {
            return self.quantified(word);
        }
        let Some((name, expr)) = self.by_name.get_key_value(word) else {
            let names = self.selections.iter().map(|(name, _)| name.as_str());
            return Err(format!(
                "the condition names `{word}`, and there is no such selection{}",
                did_you_mean(word, names)
            ));
        };
        self.used.insert(name);
        self.allowance.spend(expr.bytes())?;
        Ok(Expr::clone(expr))
    }

    fn quantified(&mut self, how_many: &str) -> Result<Expr, String> {
        self.next();
        let join = match how_many.to_ascii_lowercase().as_str() {
            "1" | "any" => Expr::Or,
            "all" => Expr::And,
            other => {
                return Err(format!("`{other} of` is not supported; write `1 of` or `all of`"));
            }
        };
        let Some(pattern) = self.next() else {
            return Err("`of` must be followed by `them` or a name with `*`".into());
        };
        // As in Sigma, `them` leaves out the selections whose names start with an underscore.
        let picked: Vec<&(String, Expr)> =
            self.selections
                .iter()
                .filter(|(name, _)| {
                    if pattern == "them" { !name.starts_with('_') } else { fits(pattern, name) }
                })
                .collect();
        if picked.is_empty() {
            return Err(format!("no selection fits `{pattern}`"));
        }
        self.used.extend(picked.iter().map(|(name, _)| name.as_str()));
        for (_, expr) in &picked {
            self.allowance.spend(expr.bytes())?;
        }
        Ok(single(picked.into_iter().map(|(_, expr)| expr.clone()).collect(), join))
    }
}

/// Wraps the parts unless there is but one.
fn single(mut parts: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    if parts.len() == 1
        && let Some(part) = parts.pop()
    {
        return part;
    }
    join(parts)
}

/// True if a name fits a pattern whose `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let (middle, last) = tail.rsplit_once('*').unwrap_or(("", tail));
    let rest = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(last));
    // Each part as early as it can be leaves the most for those behind it.
    let mut parts = middle.split('*');
    let left = rest.and_then(|rest| {
        parts.try_fold(rest, |rest, part| rest.split_once(part).map(|(_, behind)| behind))
    });
    left.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<(String, Expr)> {
        names.iter().map(|name| ((*name).to_owned(), Expr::Or(Vec::new()))).collect()
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_reason() {
        for (condition, reason) in [
            ("a and", "ends too early"),
            ("a b", "does not end where `b`"),
            ("(a or b", "not closed"),
            ("aa or b", "no such selection"),
            ("2 of them", "`2 of` is not supported"),
            ("1 of c*", "no selection fits"),
            ("a | count() > 5", "aggregations"),
            ("a", "does not use the selection `b`"),
        ] {
            let error =
                compile(condition, &named(&["a", "b"]), &mut Allowance::default()).unwrap_err();
            assert!(error.contains(reason), "{condition}: {error}");
        }
        let deep = format!("{}a", "not ".repeat(100));
        let error = compile(&deep, &named(&["a"]), &mut Allowance::default()).unwrap_err();
        assert!(error.contains("nested"), "{error}");
    }

    #[test]
    fn names_fit_patterns() {
        assert!(fits("sel*", "selection_1") && fits("*_1", "selection_1"));
        assert!(fits("s*n*1", "selection_1") && !fits("s*2", "selection_1"));
        assert!(fits("a*a", "aa") && !fits("a*a", "a") && fits("**", "") && fits("a**b", "ab"));
        assert!(fits("*b*a*", "abba") && !fits("*b*b*b*", "abba"));
        // Trying all places of each part would not end.
        assert!(!fits(&("a*".repeat(40) + "b"), &"a".repeat(200)));
    }
}
