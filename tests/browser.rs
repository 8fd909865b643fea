//! The dashboard in a real Chromium: what people see, follow and press, and what hostile logs cannot do.

/// A browser that is driven.
mod chrome;
/// Logs that attack whoever looks at them.
mod hostile;
/// From an empty folder to an incident that somebody has dealt with.
mod journey;
/// Every page in every size, in light and dark.
mod look;
/// The lines of one journey's log.
mod trifecta;
