//! Quick scenarios.

mod bindings;
mod control_api;
mod control_api_guard;
mod openai;
mod openai_clients;
mod sim_deploy;
mod sim_members;
mod sim_random;
mod tidy;
