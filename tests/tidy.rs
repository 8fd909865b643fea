//! The rules of the tree that no compiler keeps: who may name whom, how long things may be, what is shipped with what.
//!
//! Every rule is a function from a text to complaints. It is tried on a text that breaks it and then on the whole
//! tree, so that a rule that has gone blind is noticed.

/// Who may name whom.
mod layers;
/// Links between the texts for people.
mod links;
/// What the templates must not hold.
mod pages;
/// Files that are shipped, and the places that must name them.
mod shipped;
/// How long things may be.
mod size;
/// Rust read as tokens.
mod source;
/// The files of the tree.
mod tree;
/// Words that must not be left behind.
mod words;

/// Fails with every complaint at once, and with what to do about them.
fn assert_none(what_to_do: &str, complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{what_to_do}\n{} complaints:\n  {}\n",
        complaints.len(),
        complaints.join("\n  ")
    );
}
