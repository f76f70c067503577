//! `glasshouse ui playground`: the server, and its page of plans in the browser.

use glasshouse_server::Listening;

use crate::args::PlaygroundArguments;
use crate::command::{browser, serve};
use crate::error::Error;
use crate::output;

pub(super) fn run(arguments: &PlaygroundArguments) -> Result<u8, Error> {
    let listening = Listening { listen: arguments.listen, ..Listening::default() };
    serve::until_told(listening, false, |server, address| {
        output::note(&format!("the playground is {address}/playground"));
        if !arguments.no_open {
            browser::show(server, address);
        }
    })
}
