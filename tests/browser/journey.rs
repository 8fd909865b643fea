//! From an empty folder to an incident that somebody has dealt with.

use std::fs;

use super::chrome::Chrome;
use super::trifecta;
use crate::support::await_that;

#[test]
fn an_attack_announces_itself_and_is_followed_to_its_bytes_and_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let daemon = trifecta::watch(home.path(), &logs);
    let chrome = Chrome::start();
    chrome.open(&daemon.link);
    assert_eq!(chrome.address(), "/", "the token is not left in the address");
    assert_eq!(chrome.text(".empty h2"), "No incidents");
    chrome.await_element("#live[data-live=on]");

    chrome.run("window.isStillThisPage = true");
    let place = "return document.querySelector('.empty').getBoundingClientRect().top";
    let before = chrome.run(place);
    let file = trifecta::write(&logs);
    chrome.await_element("#news:not([hidden])");
    assert_eq!(chrome.text("#news"), "1 new or changed – show");
    assert!(chrome.title().starts_with("(1) "), "{}", chrome.title());
    assert_eq!(chrome.run("return window.isStillThisPage"), true, "nothing reloads by itself");
    assert_eq!(chrome.count("#incidents"), 0, "nothing comes in by itself");
    assert_eq!(chrome.run(place), before, "nothing moves by itself");

    chrome.take_picture("journey-news");
    chrome.follow("#news");
    assert_eq!(chrome.count("#incidents tbody tr"), 1);
    assert_eq!(chrome.count("#news[hidden]"), 1, "what is shown is no longer new");
    chrome.write("#f-q", "jk");
    assert_eq!(chrome.properties("#f-q:focus", "value"), ["jk"], "who types, types");
    // The keyboard alone leads to the incident: j to the first one, Enter to open it.
    chrome.write("body", "j");
    chrome.follow_by_key("#incidents a.title:focus");
    let incident = chrome.address();
    assert!(incident.starts_with("/incidents/"), "{incident}");
    assert_the_legs_are_drawn(&chrome);

    chrome.follow("a.call-mark .leg-1 + .leg-number");
    assert_the_call_is_that_of(&chrome, &file);
    chrome.back();
    assert_eq!(chrome.address(), incident);

    decide(&chrome, "Acknowledge");
    assert_eq!(chrome.address(), incident);
    assert_decided(&chrome, "acknowledged");
    chrome.take_picture("journey-decided");
    assert_eq!(daemon.alerts()[0]["status"], "acknowledged");
    assert_eq!(chrome.complaints(), Vec::<String>::new());

    chrome.await_element("#live[data-live=on]");
    daemon.kill();
    chrome.await_element("#live[data-live=off]");
    assert_eq!(chrome.text("#live-text"), "connection lost, trying again");
}

#[test]
fn without_scripts_the_same_works_by_links_and_forms() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let daemon = trifecta::watch(home.path(), &logs);
    let chrome = Chrome::start_without_scripts();
    let (site, token) = daemon.link.split_once("/login?token=").expect("a link with the token");
    chrome.open(&format!("{site}/sources"));
    assert_eq!(chrome.address(), "/login?next=%2Fsources");
    chrome.write("#token", "not the token");
    chrome.follow("form button");
    assert!(chrome.text(".problem").contains("not the token"));
    chrome.write("#token", token);
    chrome.follow("form button");
    assert_eq!(chrome.address(), "/sources", "one goes on to where one wanted to");
    assert!(chrome.text(".empty").contains("No log file has been found yet"));
    assert_eq!(chrome.text("#live-text"), "not live: reload to refresh");

    let file = trifecta::write(&logs);
    await_that("the alert", || !daemon.alerts().is_empty());
    chrome.follow("nav a[href='/']");
    assert_eq!(chrome.count("#incidents tbody tr"), 1);
    chrome.write("#f-q", "no such thing");
    chrome.follow("form.filter button");
    assert_eq!(chrome.text(".empty h2"), "Nothing matches");
    chrome.follow(".chips a");
    chrome.follow("#incidents a.title");
    let incident = chrome.address();
    assert_the_legs_are_drawn(&chrome);

    chrome.follow("tr.call-row:not(.context) a");
    assert_the_call_is_that_of(&chrome, &file);
    // The page of a call leads back by a link.
    chrome.follow("section a[href^='/incidents/']");
    assert_eq!(chrome.text("h1"), "Untrusted content, then sensitive data, then an outbound write");

    decide(&chrome, "Acknowledge");
    assert_decided(&chrome, "acknowledged");
    chrome.follow("nav a[href='/']");
    assert_eq!(chrome.text("#incidents .state"), "acknowledged");
    chrome.open(&format!("{site}{incident}"));
    assert_decided(&chrome, "acknowledged");
    chrome.follow("header form button");
    assert_eq!(chrome.address(), "/login");
    chrome.open(&format!("{site}{incident}"));
    assert!(chrome.address().starts_with("/login"), "who has signed out is out");
}

fn assert_the_legs_are_drawn(chrome: &Chrome) {
    let shapes = [(".leg-1", &["1"][..]), (".leg-2", &["2", "2"]), (".leg-3", &["3"])];
    for (class, numbers) in shapes {
        let selector = format!("svg.timeline polygon{class} + .leg-number");
        assert_eq!(chrome.texts(&selector), numbers, "{class}");
    }
    assert_eq!(chrome.texts("svg.timeline .gap-text"), trifecta::GAPS);
    let marks = chrome.properties("svg.timeline a.call-mark", "outerHTML");
    let rows = chrome.properties("tr.call-row th a", "href");
    assert_eq!(marks.len(), rows.len(), "the table says the same as the picture");
    for (mark, row) in marks.iter().zip(&rows) {
        let (_, call) = row.split_once("/calls/").expect("a row leads to its call");
        assert!(mark.contains(&format!("href=\"/calls/{call}\"")), "{mark}");
    }
    assert_eq!(chrome.texts("tr.call-row:not(.context) th code"), trifecta::TOOLS);
    assert_eq!(chrome.texts("tr.call-row.context th code"), ["get_ticket"]);
}

fn assert_the_call_is_that_of(chrome: &Chrome, file: &std::path::Path) {
    assert!(chrome.address().starts_with("/calls/"), "{}", chrome.address());
    assert_eq!(chrome.text("h1"), trifecta::TOOLS[0]);
    assert_eq!(chrome.count("article.record"), 1);
    let facts = chrome.texts("article.record dl.facts dd");
    assert_eq!(facts[0], file.to_str().unwrap());
    trifecta::assert_is_line(&chrome.text("article.record pre"), file, &facts[1]);
}

fn decide(chrome: &Chrome, button: &str) {
    chrome.write("#d-who", "nadia");
    chrome.write("#d-note", "looking <b>into</b> it");
    assert_eq!(chrome.text(".buttons button:first-child"), button);
    chrome.follow(".buttons button:first-child");
}

fn assert_decided(chrome: &Chrome, state: &str) {
    assert_eq!(chrome.text(".head .state"), state);
    assert_eq!(chrome.texts(".history li").len(), 1);
    assert_eq!(chrome.text(".history strong"), "nadia");
    assert_eq!(chrome.text(".history .state"), state);
    assert_eq!(chrome.text(".history blockquote"), "looking <b>into</b> it");
}
