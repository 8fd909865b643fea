//! What is called and how it goes, before any dialect writes it down.

use crate::model::{OutcomeClass, Text};

/// The tools of the simulated servers. Each belongs to one server, so that no call of one log can
/// be taken for that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    FetchUrl,
    GetTicket,
    SearchTickets,
    ListTickets,
    UpdateTicket,
    PostComment,
    SendEmail,
    ReadFile,
    ListDir,
    WriteFile,
    DeleteFile,
    ReadNote,
    ListNotes,
    AppendNote,
    DeleteNote,
    LookupDocument,
    SearchHelp,
    ListDeployments,
    DeleteDeployment,
    OpenDoc,
    ListDocs,
    SaveDoc,
    RemoveDoc,
    OpenCase,
    FindCases,
    NoteCase,
    MailCase,
}

impl Tool {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FetchUrl => "fetch_url",
            Self::GetTicket => "get_ticket",
            Self::SearchTickets => "search_tickets",
            Self::ListTickets => "list_tickets",
            Self::UpdateTicket => "update_ticket",
            Self::PostComment => "post_comment",
            Self::SendEmail => "send_email",
            Self::ReadFile => "read_file",
            Self::ListDir => "list_dir",
            Self::WriteFile => "write_file",
            Self::DeleteFile => "delete_file",
            Self::ReadNote => "read_note",
            Self::ListNotes => "list_notes",
            Self::AppendNote => "append_note",
            Self::DeleteNote => "delete_note",
            Self::LookupDocument => "lookup_document",
            Self::SearchHelp => "search_help",
            Self::ListDeployments => "list_deployments",
            Self::DeleteDeployment => "delete_deployment",
            Self::OpenDoc => "open_doc",
            Self::ListDocs => "list_docs",
            Self::SaveDoc => "save_doc",
            Self::RemoveDoc => "remove_doc",
            Self::OpenCase => "open_case",
            Self::FindCases => "find_cases",
            Self::NoteCase => "note_case",
            Self::MailCase => "mail_case",
        }
    }

    /// True for tools that destroy something: a person at work does not do that many times in a
    /// row.
    pub(super) const fn is_destructive(self) -> bool {
        matches!(
            self,
            Self::WriteFile | Self::DeleteFile | Self::DeleteNote | Self::DeleteDeployment
        )
    }
}

/// How a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is done.
    Ok,
    /// It runs and fails.
    Error,
    /// No answer comes.
    Timeout,
    /// Policy says no.
    Denied,
    /// The model made the tool's name up.
    NotListed,
    /// A limit stops it.
    Limited,
    /// A person is asked before it runs, and agrees.
    Asked,
    /// A person is asked before it runs, and does not agree.
    Declined,
    /// A person is asked before it runs and again while it runs, and agrees.
    Elicited,
    /// The same, but the second time the person does not agree.
    Cancelled,
    /// The client's policy says no and the server does it all the same.
    Bypassed,
    /// The gate no longer knows the tool.
    DefinitionChanged,
}

impl Fate {
    /// The class of the word that the witness nearest to the work has for it.
    pub(super) const fn class(self) -> OutcomeClass {
        match self {
            Self::Ok | Self::Asked | Self::Elicited | Self::Bypassed => OutcomeClass::Ok,
            Self::Error | Self::Timeout | Self::DefinitionChanged => OutcomeClass::Error,
            Self::Denied | Self::NotListed => OutcomeClass::Denied,
            Self::Limited => OutcomeClass::Limited,
            Self::Declined | Self::Cancelled => OutcomeClass::Declined,
        }
    }
}

/// One call to be made.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) tool: Tool,
    pub(super) fate: Fate,
    /// The tenant whose data it touches, where that is not the actor's own.
    pub(super) foreign_tenant: Option<Text>,
    /// The address it fetches or the words it searches for, where the log is to show them.
    pub(super) about: Option<&'static str>,
    /// How tries before the last one ended, and how many there were.
    pub(super) tries_before: Option<(Fate, u32)>,
}

impl Act {
    pub(super) const fn new(tool: Tool, fate: Fate) -> Self {
        Self { tool, fate, foreign_tenant: None, about: None, tries_before: None }
    }
}
