// Connects its stdin and stdout to a code session, which is a process of the same sandbox. bridge.py describes the
// commands, which are the same.
'use strict';

const fs = require('fs');
const net = require('net');
const path = require('path');

const DIRECTORY = '/tmp/.sb-code-' + process.getuid();
const START_LIMIT = 60000; // milliseconds
const INTERRUPT_LIMIT = 5000;

const file = (name, kind) => path.join(DIRECTORY, name + '.' + kind);
const say = (event) => fs.writeSync(1, JSON.stringify(event) + '\n');

function connect(name) {
  return new Promise((resolve) => {
    const connection = net.connect(file(name, 'sock'));
    connection.once('connect', () => resolve(connection));
    connection.once('error', () => resolve(null));
  });
}

function load(name) {
  try {
    return JSON.parse(fs.readFileSync(file(name, 'json'), 'utf8'));
  } catch {
    return null;
  }
}

function remove(name, ...kinds) {
  for (const kind of kinds) fs.rmSync(file(name, kind), { force: true });
}

function kill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // it has ended
  }
}

async function run(name, timeout, fresh) {
  process.on('SIGINT', early);
  if (fresh === 'new') await end(name);
  let held = Buffer.alloc(0);
  let connection = await connect(name);
  if (!connection) {
    const state = load(name);
    say({ type: 'absent', known: state !== null, ended: (state && state.ended) || '' });
    const rest = await started(name);
    if (!rest) return;
    ({ connection, held } = rest);
  }
  relay(connection, (load(name) || {}).pid, Number(timeout));
  connection.write(held);
}

// early cancels a run that has no connection yet.
function early() {
  cancel();
}

// cancel ends the bridge with an error of its own.
function cancel(name = 'KeyboardInterrupt', value = 'the run was canceled before it began') {
  say({ type: 'error', name, value, traceback: [name + ': ' + value] });
  say({ type: 'end', ok: false });
  process.exit(0);
}

// relay copies both ways until the session closes the connection. SIGINT interrupts the run, or cancels one that waits.
function relay(connection, pid, timeout) {
  let begun = false;
  let timer;
  const interrupt = () => {
    if (begun) {
      kill(pid, 'SIGINT');
      return;
    }
    connection.write('{"op":"cancel"}\n', () => cancel());
  };
  process.off('SIGINT', early);
  process.on('SIGINT', interrupt);
  let seen = '';
  const look = (data) => {
    seen = seen.slice(-64) + data.toString('latin1');
    if (!/\{"type": ?"begin"/.test(seen)) return;
    begun = true;
    connection.off('data', look);
    if (timeout > 0) {
      timer = setTimeout(() => {
        say({ type: 'timeout' });
        interrupt();
        timer = setTimeout(
          () => cancel('TimeoutError', 'the code ignores the interrupt and keeps running'), INTERRUPT_LIMIT,
        );
      }, timeout * 1000);
    }
  };
  connection.on('data', look);
  process.stdin.pipe(connection);
  connection.pipe(process.stdout);
  connection.on('error', () => {});
  connection.on('close', () => {
    clearTimeout(timer);
    process.stdin.destroy();
  });
}

// started waits for the request that starts a session. It returns the connection, and the input that it has read, or
// nothing.
function started(name) {
  return new Promise((resolve) => {
    let held = Buffer.alloc(0);
    const read = async (data) => {
      held = Buffer.concat([held, data]);
      let begin = 0;
      for (let at = held.indexOf(10); at >= 0; at = held.indexOf(10, begin)) {
        const request = JSON.parse(held.subarray(begin, at));
        if (request.op === 'start') {
          process.stdin.off('data', read);
          process.stdin.off('end', none);
          process.stdin.pause();
          const connection = await start(name, request.source);
          held = Buffer.concat([held.subarray(0, begin), held.subarray(at + 1)]);
          resolve(connection && { connection, held });
          return;
        }
        begin = at + 1;
      }
    };
    const none = () => resolve(null);
    process.stdin.on('data', read);
    process.stdin.on('end', none);
  });
}

// start leaves the program of a session where it looks for it, and returns a connection when it listens, or null.
async function start(name, source) {
  fs.mkdirSync(DIRECTORY, { recursive: true, mode: 0o700 });
  const info = fs.lstatSync(DIRECTORY);
  if (info.uid !== process.getuid() || info.mode & 0o077) {
    say({ type: 'failed', message: DIRECTORY + ' belongs to another user' });
    return null;
  }
  remove(name, 'log');
  const temporary = file(name, process.pid + '.new'); // several clients may start the session at once
  fs.writeFileSync(temporary, source);
  fs.renameSync(temporary, file(name, 'src'));
  say({ type: 'ready' });
  const deadline = Date.now() + START_LIMIT;
  while (Date.now() < deadline) {
    const connection = await connect(name);
    if (connection) return connection;
    if (fs.existsSync(file(name, 'log'))) {
      say({ type: 'failed', message: fs.readFileSync(file(name, 'log'), 'utf8').trim().slice(-2000) });
      return null;
    }
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  say({ type: 'failed', message: 'it does not answer' });
  return null;
}

async function ls() {
  let names = [];
  try {
    names = fs.readdirSync(DIRECTORY).filter((f) => f.endsWith('.json')).map((f) => f.slice(0, -5)).sort();
  } catch {
    // there is none
  }
  for (const name of names) {
    const state = { ...load(name), name, state: 'lost' };
    if (state.ended) state.state = 'ended';
    if (state.language === 'bash') state.state = shell(name, state);
    const connection = await connect(name);
    if (connection) {
      state.state = 'busy'; // unless it answers otherwise
      Object.assign(state, await status(connection));
      connection.destroy();
    }
    say({ ...state, type: 'session' });
  }
}

// shell returns the state of a session of bash, which has no socket.
function shell(name, state) {
  try {
    const words = fs.readFileSync(`/proc/${Number(state.pid)}/cmdline`, 'utf8').split('\0');
    if (words.includes(name)) return fs.existsSync(file(name, 'busy')) ? 'busy' : 'idle';
  } catch {
    // its process is gone
  }
  return fs.existsSync(file(name, 'ended')) ? 'ended' : 'lost';
}

function status(connection) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({}), 2000);
    lines(connection, (line) => {
      const event = JSON.parse(line);
      if (event.type !== 'status') return;
      clearTimeout(timer);
      resolve(event);
    });
    connection.on('error', () => resolve({}));
    connection.write('{"op":"status"}\n');
  });
}

async function interrupt(name) {
  const connection = await connect(name);
  if (connection) {
    connection.destroy();
    kill(load(name).pid, 'SIGINT');
  }
  say({ type: 'done', found: connection !== null });
}

// end kills the session, removes its files, and returns whether there was one.
async function end(name) {
  const state = load(name);
  const connection = await connect(name);
  if (connection && state) {
    const closed = new Promise((resolve) => {
      connection.on('close', resolve);
      connection.on('error', () => {});
      setTimeout(resolve, 5000).unref();
    });
    connection.resume();
    kill(-state.pid, 'SIGKILL'); // it usually leads its process group
    kill(state.pid, 'SIGKILL');
    await closed;
  }
  remove(name, 'sock', 'json', 'log', 'start', 'lock', 'src');
  return state !== null;
}

async function close(name) {
  say({ type: 'done', found: await end(name) });
}

// lines calls f with each line of a stream.
function lines(stream, f) {
  let held = '';
  stream.setEncoding('utf8');
  stream.on('data', (text) => {
    held += text;
    for (let at = held.indexOf('\n'); at >= 0; at = held.indexOf('\n')) {
      const line = held.slice(0, at);
      held = held.slice(at + 1);
      f(line);
    }
  });
}

const [command, ...rest] = process.argv.slice(1);
({ run, ls, interrupt, close })[command](...rest);
