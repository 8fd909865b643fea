//! Pairs of what is wanted and what there is, each with one of its own.

/// Whether each of those that want something can be given one of what fits it, and none is given twice. `fits` holds,
/// for each of them, what fits it, as numbers below `count`.
///
/// Looks for a place by asking who holds it for another, so deep as there are some who want: there are few.
pub(super) fn is_one_to_one(fits: &[Vec<usize>], count: usize) -> bool {
    let mut holders = vec![None; count];
    (0..fits.len()).all(|who| is_given(who, fits, &mut vec![false; count], &mut holders))
}

fn is_given(
    who: usize,
    fits: &[Vec<usize>],
    asked: &mut [bool],
    holders: &mut [Option<usize>],
) -> bool {
    fits.get(who).is_some_and(|fitting| {
        fitting.iter().any(|&thing| {
            if asked.get_mut(thing).is_none_or(|asked| std::mem::replace(asked, true)) {
                return false;
            }
            let holder = holders.get(thing).copied().flatten();
            if holder.is_some_and(|holder| !is_given(holder, fits, asked, holders)) {
                return false;
            }
            if let Some(held) = holders.get_mut(thing) {
                *held = Some(who);
            }
            true
        })
    })
}

#[cfg(test)]
mod tests {
    use super::is_one_to_one;

    #[test]
    fn each_gets_its_own_and_who_was_first_gives_way() {
        assert!(is_one_to_one(&[], 0));
        assert!(is_one_to_one(&[vec![0, 1], vec![0]], 2));
        assert!(is_one_to_one(&[vec![0, 1], vec![1, 2], vec![0], vec![2, 3]], 4));
        assert!(!is_one_to_one(&[vec![0], vec![0]], 2));
        assert!(!is_one_to_one(&[vec![0, 1], vec![1], vec![0]], 3));
        assert!(!is_one_to_one(&[vec![]], 1));
        // One gives way to the next, and so on through all of them.
        let mut chain: Vec<Vec<usize>> = (0..999).map(|who| vec![who, who + 1]).collect();
        chain.push(vec![0]);
        assert!(is_one_to_one(&chain, 1_000));
        chain.push(vec![500]);
        assert!(!is_one_to_one(&chain, 1_001));
    }
}
