//! Critical errors as the driver reports them (Xid): heard of at once, and not forgotten when the
//! GPU that had one is gone.

use std::collections::HashMap;

use nvml_wrapper::Device;
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use super::absence::absence;
use crate::reading::{Absence, Moment, Reading, Xid, Xids};

/// Events taken in one go: a GPU in trouble may send them without end.
const MOST: usize = 64;

/// Listens for the errors of all GPUs.
#[derive(Debug, Default)]
pub struct Events {
    set: Option<EventSet<'static>>,
    /// The GPUs that are listened to, or would not have it.
    asked: Vec<u32>,
    refused: HashMap<u32, Absence>,
    heard: HashMap<u32, Xids>,
}

impl Events {
    /// Listens to these GPUs from now on; when there are others than before, anew: a GPU that
    /// came back is another one to the driver.
    pub fn listen<'a>(
        &mut self,
        library: &'static Library,
        cards: impl Iterator<Item = (u32, &'a Device<'static>)> + Clone,
    ) {
        let there: Vec<u32> = cards.clone().map(|(index, _)| index).collect();
        if self.set.is_some() && self.asked == there {
            return;
        }
        self.refused.retain(|index, _| there.contains(index));
        self.asked = there;
        // A refusal takes the set with it: once more without the GPU that would not have it.
        while let Err((index, why)) = self.register(library, cards.clone()) {
            self.refused.insert(index, why);
        }
    }

    /// A set with all GPUs that have not refused; else the first that does, and why.
    fn register<'a>(
        &mut self,
        library: &'static Library,
        cards: impl Iterator<Item = (u32, &'a Device<'static>)>,
    ) -> Result<(), (u32, Absence)> {
        self.set = None;
        let Ok(mut set) = library.create_event_set() else { return Ok(()) };
        for (index, device) in cards.filter(|(index, _)| !self.refused.contains_key(index)) {
            set = device
                .register_events(EventTypes::CRITICAL_XID_ERROR, set)
                .map_err(|refused| (index, absence(&refused.error)))?;
        }
        self.set = Some(set);
        Ok(())
    }

    /// Stops listening; what was heard stays.
    pub fn stop(&mut self) {
        self.set = None;
    }

    /// Takes in what has happened since.
    pub fn hear(&mut self, now: Moment) {
        let Some(set) = &self.set else { return };
        for _ in 0..MOST {
            match set.wait(0) {
                Ok(event) => {
                    let code = match event.event_data {
                        Some(XidError::Value(code)) => Some(code),
                        Some(XidError::Unknown) => None,
                        None => continue,
                    };
                    let Ok(index) = event.device.index() else { continue };
                    let heard = self.heard.entry(index).or_default();
                    *heard = Xids { count: heard.count + 1, last: Some(Xid { code, at: now }) };
                }
                Err(NvmlError::Timeout) => return,
                Err(_) => {
                    // A GPU fell off the bus, perhaps: anew next time.
                    self.set = None;
                    return;
                }
            }
        }
    }

    /// The errors of a GPU; known to be none where it is listened to and there was none.
    pub fn of(&self, index: u32, now: Moment) -> Reading<Xids> {
        match (self.heard.get(&index), self.refused.get(&index)) {
            (Some(xids), _) => Reading::measured(*xids, now),
            (None, Some(why)) => Reading::Absent(why.clone()),
            (None, None) if self.set.is_some() && self.asked.contains(&index) => {
                Reading::measured(Xids::default(), now)
            }
            (None, None) => Reading::not_read(),
        }
    }
}
