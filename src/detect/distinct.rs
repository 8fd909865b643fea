//! Whether every stage can have a call of its own.

/// Calls by the stages that they can fill, as bits, and how many of each there are.
#[derive(Debug, Default)]
pub(super) struct Fillers {
    classes: Vec<(u32, u64)>,
}

impl Fillers {
    pub(super) fn add(&mut self, stages: u32) {
        match self.classes.iter_mut().find(|(class, _)| *class == stages) {
            Some((_, count)) => *count += 1,
            None => self.classes.push((stages, 1)),
        }
    }

    pub(super) fn remove(&mut self, stages: u32) {
        if let Some(index) = self.classes.iter().position(|(class, _)| *class == stages)
            && let Some((_, count)) = self.classes.get_mut(index)
        {
            *count -= 1;
            if *count == 0 {
                self.classes.swap_remove(index);
            }
        }
    }

    /// True if the first `stages` stages can be filled, each by another call.
    pub(super) fn fill_all(&self, stages: usize) -> bool {
        let wanted = (1_u32 << stages) - 1;
        let (mut all, mut is_plain) = (0, true);
        for (class, _) in &self.classes {
            all |= class;
            is_plain &= class.is_power_of_two();
        }
        if all & wanted != wanted || is_plain {
            return all & wanted == wanted;
        }
        let mut taken = vec![Vec::new(); self.classes.len()];
        (0..stages).all(|stage| self.fill(stage, &mut taken, &mut vec![false; self.classes.len()]))
    }

    /// True if the first `stages` stages can be filled, several by one call where it comes to that.
    pub(super) fn fill_together(&self, stages: usize) -> bool {
        let wanted = (1_u32 << stages) - 1;
        self.classes.iter().fold(0, |all, (class, _)| all | class) & wanted == wanted
    }

    /// Gives the stage a call, where need be by giving another stage another call. `taken` holds the
    /// stages that each class fills by now.
    fn fill(&self, stage: usize, taken: &mut [Vec<usize>], tried: &mut [bool]) -> bool {
        for (index, (class, count)) in self.classes.iter().enumerate() {
            if class & (1 << stage) == 0 || std::mem::replace(&mut tried[index], true) {
                continue;
            }
            if (taken[index].len() as u64) < *count {
                taken[index].push(stage);
                return true;
            }
            for place in 0..taken[index].len() {
                let other = taken[index][place];
                if self.fill(other, taken, tried) {
                    taken[index][place] = stage;
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fills(calls: &[u32], stages: usize) -> bool {
        let mut fillers = Fillers::default();
        for call in calls {
            fillers.add(*call);
        }
        fillers.fill_all(stages)
    }

    #[test]
    fn one_call_fills_one_stage() {
        assert!(fills(&[0b001, 0b010, 0b100], 3));
        assert!(!fills(&[0b001, 0b110], 3));
        assert!(fills(&[0b111, 0b111, 0b001], 3));
        assert!(!fills(&[0b111, 0b001, 0b001], 3));
        assert!(fills(&[0b011, 0b101, 0b001], 3));
        assert!(!fills(&[0b011, 0b011, 0b011], 3));
    }

    #[test]
    fn calls_that_leave_fill_nothing() {
        let mut fillers = Fillers::default();
        for call in [0b11, 0b11] {
            fillers.add(call);
        }
        assert!(fillers.fill_all(2));
        fillers.remove(0b11);
        assert!(!fillers.fill_all(2) && fillers.fill_together(2));
        fillers.remove(0b11);
        assert!(!fillers.fill_together(2));
    }
}
