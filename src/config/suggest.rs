//! "Did you mean": the known word nearest to a typed one.

/// The candidate that `word` most likely stands for; none when none is near.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = fold(word);
    let limit = (typed.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &fold(candidate)), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Case and the kind of separator do not count. Cut, so that a long word costs no time.
fn fold(word: &str) -> Vec<char> {
    const WORD_CHARS_MAX: usize = 64;
    let fold_char = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    word.chars().take(WORD_CHARS_MAX).map(fold_char).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to another.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_above: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, &typed) in from.iter().enumerate() {
        let mut current = Vec::with_capacity(above.len());
        current.push(row + 1);
        for (column, &wanted) in to.iter().enumerate() {
            let replaced = above[column] + usize::from(typed != wanted);
            let mut least = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            let is_swap =
                row > 0 && column > 0 && from[row - 1] == wanted && to[column - 1] == typed;
            if is_swap {
                least = least.min(before_above[column - 1] + 1);
            }
            current.push(least);
        }
        before_above = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(from.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slips_of_the_fingers_find_their_word() {
        let words = ["db", "memory_max", "password_file", "listen"];
        for (typed, wanted) in [
            ("bd", Some("db")),
            ("memory-max", Some("memory_max")),
            ("memory_mx", Some("memory_max")),
            ("LISTEN", Some("listen")),
            ("lsiten", Some("listen")),
            ("pasword_fil", Some("password_file")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, words), wanted, "{typed}");
        }
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_zero_for_equals(a in "[a-d]{0,8}", b in "[a-d]{0,8}") {
            let (a, b) = (fold(&a), fold(&b));
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
            prop_assert!(distance(&a, &b) <= a.len().max(b.len()));
        }
    }
}
