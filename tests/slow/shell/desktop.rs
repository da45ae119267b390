//! A desktop without a screen: an X server, a session bus and a WebDriver, each with names of its own.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use xtask::setup::tools;

/// These programs end in milliseconds when asked to; one that does not is ended by force.
const END_MAX: Duration = Duration::from_secs(5);

pub struct Desktop {
    // In the order in which they end: the driver closes its windows while the display is there.
    driver: Running,
    _bus: Running,
    _display: Running,
    driver_port: u16,
}

impl Desktop {
    pub fn start() -> Result<Self> {
        let (display, number) = start_and_read_line(Command::new("Xvfb").args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "1280x800x24",
            "-nolisten",
            "tcp",
        ]))?;
        let (bus, bus_address) =
            start_and_read_line(Command::new("dbus-daemon").args(["--session", "--nofork", "--print-address=1"]))?;
        let [driver_port, native_port] = free_ports()?;
        let mut driver = Command::new(tools::tauri_driver()?);
        driver.args(["--port", &driver_port.to_string(), "--native-port", &native_port.to_string()]);
        driver.env("DISPLAY", format!(":{number}")).env("DBUS_SESSION_BUS_ADDRESS", bus_address);
        // Without a graphics card, and without the session of whoever runs the tests.
        driver.env("WEBKIT_DISABLE_DMABUF_RENDERER", "1").env("LIBGL_ALWAYS_SOFTWARE", "1").env("NO_AT_BRIDGE", "1");
        driver.env("GDK_BACKEND", "x11").env_remove("WAYLAND_DISPLAY");
        let driver = Running::start(&mut driver)?;
        Ok(Self { driver, _bus: bus, _display: display, driver_port })
    }

    pub fn driver_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.driver_port)
    }

    /// Whether the driver still runs; if not, no window can be driven.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.driver.child.try_wait().context("cannot ask after tauri-driver")?;
        ensure!(ended.is_none(), "tauri-driver ended: {ended:?}");
        Ok(())
    }
}

/// A process that ends with this value, by the gentle signal so that it can take its own children along.
struct Running {
    child: Child,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        terminate(self.child.id());
        let deadline = Instant::now() + END_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a process to end.
pub fn terminate(pid: u32) {
    // It fails only if there is no such process any more.
    let _ = Command::new("kill").args(["-TERM", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Starts a program that says in its first line how it is reached.
fn start_and_read_line(command: &mut Command) -> Result<(Running, String)> {
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let stdout = running.child.stdout.take().context("a piped child has a standard output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).context("reading how it is reached")?;
    ensure!(!line.trim().is_empty(), "{command:?} ended before it could be reached");
    Ok((running, line.trim().to_owned()))
}

/// Two ports that were free a moment ago. The driver cannot choose its own.
fn free_ports() -> Result<[u16; 2]> {
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}
