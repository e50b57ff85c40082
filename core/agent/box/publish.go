//go:build linux

package box

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/port"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// publish listens for the clients of published ports, before the sandbox's first process. While it listens, no process
// in the sandbox can bind these ports, and so none can send from them.
func publish(ports []wire.Port) error {
	for _, p := range ports {
		listener, err := listenTCP(p.Outside)
		if err != nil {
			return err
		}
		go relay(listener, int(p.Inside))
	}
	return nil
}

func listenTCP(number uint16) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(number)}); err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "published port"), nil
}

// relay connects each client with the sandbox's server, until the process ends.
func relay(listener *os.File, inside int) {
	for {
		client, err := accept(listener)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors or memory: others release them
			continue
		}
		go func() {
			defer func() { _ = client.Close() }()
			server, err := port.ConnectFrom(client, inside)
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			port.Carry(server, client, client)
		}()
	}
}
