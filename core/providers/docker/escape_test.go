package docker

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// Each case tries a known escape from a badly configured container, as root inside. The output decides, since a shell's
// exit code has many causes. No case does harm if it succeeds: it only opens a resource of the host.
func TestEscapes(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		id := box(t, p, nil).ID
		for _, escape := range []struct{ name, try string }{
			{"mount a file system", "mkdir -p /m && mount -t tmpfs none /m"},
			{"mount over proc", "mount -t proc proc /proc"},
			{"remount the cgroups writable", "mount -o remount,rw /sys/fs/cgroup"},
			{"make a disk's device", "mknod /tmp/disk b 8 0"},
			{"make a memory device", "mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem"},
			{"read the kernel's memory", "test -n \"$(head -c 1 /proc/kcore)\""},
			{"reboot through sysrq", ": >> /proc/sysrq-trigger"},
			{"a program for core dumps", ": >> /proc/sys/kernel/core_pattern"},
			{"a program for modules", ": >> /proc/sys/kernel/modprobe"},
			{"a handler of binary formats", ": >> /proc/sys/fs/binfmt_misc/register"},
			{
				"a release agent of cgroups",
				"for f in $(find /sys/fs/cgroup -name release_agent); do : >> $f && exit 0; done; exit 1",
			},
			{
				"raise the memory limit",
				"for f in $(find /sys/fs/cgroup -name memory.limit_in_bytes -o -name memory.max); do : >> $f && exit 0; done; " +
					"exit 1",
			},
			{"chroot", "chroot / true"},
			{"enter the host's namespaces", "nsenter -t 1 -m -u -n -i true"},
			{"a raw socket", "arping -c 1 -w 1 -I lo 127.0.0.1"},
			{"the hostname", "hostname owned"},
			{"kernel settings", ": >> /proc/sys/kernel/panic"},
			{"settings of the network", "sysctl -w net.ipv4.ip_forward=0"},
			{"an interface", "ip link set lo down"},
			{"the first process's environment", "cat /proc/1/environ"},
			{"the first process's files", "cat /proc/1/fd/0"},
			{"the first process's root", "ls /proc/1/root/"},
			{"the first process's memory", "head -c 1 /proc/1/mem"},
			{
				"the engine's socket",
				"find / -xdev \\( -name docker.sock -o -name podman.sock -o -name containerd.sock \\) | grep sock",
			},
			{"the host's processes", "test $(ls /proc | grep -c '^[0-9]') -gt 15"},
			{"the host's devices", "ls /dev/sd* /dev/vd* /dev/nvme* /dev/kvm /dev/mem /dev/kmsg 2>/dev/null | grep ."},
		} {
			t.Run(escape.name, func(t *testing.T) {
				if out, _ := sh(t, p, id, "if { "+escape.try+"; } 2>&1; then echo ESCAPED; fi"); strings.Contains(out, "ESCAPED") {
					t.Errorf("it worked: %s", out)
				}
			})
		}
		t.Run("end the first process", func(t *testing.T) {
			sh(t, p, id, "for s in $(seq 1 64); do case $s in 2|15) ;; *) kill -$s 1 ;; esac; done")
			if out, _ := sh(t, p, id, "echo alive"); out != "alive\n" {
				t.Errorf("after the signals: %q", out)
			}
		})
		t.Run("a set-uid program", func(t *testing.T) {
			if out, code := sh(
				t, p, id,
				"echo root only > /root/file; chmod 600 /root/file; cp /.sb-*/bin/sb-guest /tmp/suid && chmod 6755 /tmp/suid",
			); code != 0 {
				t.Fatal(out)
			}
			read, err := guest.Request{Op: guest.OpRead, Path: []byte("/root/file")}.Argv()
			if err != nil {
				t.Fatal(err)
			}
			if out, _ := run(
				t, p, id, core.ExecSpec{Command: append([]string{"/tmp/suid"}, read[1:]...), User: "dev"},
			); strings.Contains(out, "root only") {
				t.Errorf("it read root's file: %q", out)
			}
		})
		t.Run("orphans", func(t *testing.T) {
			sh(t, p, id, "for i in 1 2 3 4 5; do (sleep 0 &); done")
			eventually(t, "the first process has reaped the orphans", func() bool {
				out, _ := sh(t, p, id, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z '")
				return strings.TrimSpace(out) == "0"
			})
		})
	})
}

// According to the kernel, a command has no privileges beyond the allowed ones.
func TestPrivileges(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE (capabilities(7))
		const allowed = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<10
		for _, mode := range []core.NetworkMode{core.NetworkNone, core.NetworkAll} {
			id := box(t, p, func(spec *core.Spec) { spec.Network.Mode = mode }).ID
			// Podman 4.3 ignores the request for a private namespace of control groups.
			groups, _ := sh(t, p, id, "cat /proc/self/cgroup")
			if !p.engine.Podman && strings.Contains(groups, containerOf(id)) {
				t.Errorf("%s: the control groups are %q", mode, groups)
			}
			for _, user := range []string{"root", "dev"} {
				out, _ := run(t, p, id, core.ExecSpec{Command: []string{"cat", "/proc/self/status"}, User: user})
				status := map[string]string{}
				for line := range strings.Lines(out) {
					name, value, _ := strings.Cut(line, ":")
					status[name] = strings.TrimSpace(value)
				}
				if status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
					t.Errorf("%s, %s: NoNewPrivs %s, Seccomp %s", mode, user, status["NoNewPrivs"], status["Seccomp"])
				}
				for _, set := range []string{"CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb"} {
					caps, err := strconv.ParseUint(status[set], 16, 64)
					if err != nil || caps&^allowed != 0 || user == "dev" && set != "CapBnd" && caps != 0 {
						t.Errorf("%s, %s: %s is %s", mode, user, set, status[set])
					}
				}
			}
		}
	})
}

// Processes in a sandbox cannot change its end. A call with a wrong key is refused, and root inside cannot read the
// key.
func TestForgedCalls(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Timeout = core.Duration(time.Hour)
			spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
		})
		forged, err := wire.Request{Verb: wire.VerbExpire, Issued: time.Now()}.Sign(wire.NewKey())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		call := core.ExecSpec{
			Command: []string{p.known[sb.ID].dir.Program(), wire.ModeCall}, User: "dev",
			Stdin: bytes.NewReader(wire.AppendFrame(nil, wire.FrameRequest, forged)), Stdout: &out,
		}
		run(t, p, sb.ID, call)
		if !strings.Contains(out.String(), core.KindUnauthorized.String()) {
			t.Errorf("a call with a wrong key was answered %q", out.String())
		}
		if now, err := p.Get(t.Context(), sb.ID); err != nil || !now.Expires.Equal(sb.Expires) || now.Expires.IsZero() {
			t.Errorf("it expires %s, not %s; %v", now.Expires, sb.Expires, err)
		}
		key := base64.StdEncoding.EncodeToString(p.known[sb.ID].key)
		if text, _ := sh(t, p, sb.ID, "cat /.sb-*/*; env"); strings.Contains(text, key) || !strings.Contains(text, "TOKEN") {
			t.Errorf("the key is there, or nothing is: %s", text)
		}
		if text, _ := run(
			t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "cat /.sb-*/secrets; ls /.sb-*/journal"}, User: "dev"},
		); strings.Contains(text, "s3cret") || strings.Contains(text, ".log") {
			t.Errorf("an ordinary user reads root's: %s", text)
		}
	})
}

// Root inside can change the files beside the helper. The next start does not use them.
func TestChangedConfig(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, throughEngine)
		sb := box(t, p, func(spec *core.Spec) { spec.Persist, spec.Network.Mode = true, core.NetworkAll })
		if out, code := sh(
			t, p, sb.ID, `cd /.sb-* && ln -s /etc/passwd secrets && echo '{"spec":{}}' > box.json`,
		); code != 0 {
			t.Fatal(out)
		}
		stopByHand(t, e.raw(t), sb.ID)
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if out, _ := sh(
			t, p, sb.ID, "echo back; ip route add 203.0.113.0/24 dev lo 2>/dev/null && echo ESCAPED",
		); out != "back\n" {
			t.Errorf("after the start: %q", out)
		}
	})
}

// Secrets are encrypted in the sandbox's volume, and come back at the next start. If root inside has changed the file,
// the start fails.
func TestKeptSecrets(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, throughEngine)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Persist, spec.Secrets = true, []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
		})
		if out, code := sh(t, p, sb.ID, "cd /.sb-* && grep s3cret secrets"); code != 1 || out != "" {
			t.Errorf("the secret is not encrypted: %d, %s", code, out)
		}
		stopByHand(t, e.raw(t), sb.ID)
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if out, _ := sh(t, p, sb.ID, "echo $TOKEN"); out != "s3cret\n" {
			t.Errorf("after the start the secret is %q", out)
		}
		if out, code := sh(t, p, sb.ID, `cd /.sb-* && echo '{"TOKEN":"forged"}' > secrets`); code != 0 {
			t.Fatal(out)
		}
		stopByHand(t, e.raw(t), sb.ID)
		_, err := p.Start(t.Context(), sb.ID)
		wantKind(t, err, core.KindConflict)
		if !strings.Contains(core.HintOf(err), "sb snapshot") {
			t.Errorf("the hint is %q", core.HintOf(err))
		}
	})
}

// An image may have links anywhere, and declare volumes at their targets. Its program at the path of sb's own program
// never runs as the first process.
func TestImageInTheHelpersPlace(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		forgetBuilds(t, e.raw(t))
		for name, lines := range map[string]string{
			"link":   "RUN ln -s /proc/self/cwd /.sb && cp /own /bin/sb-guest\n",
			"volume": "RUN mkdir -p /.sb/bin /a/b && cp /own /.sb/bin/sb-guest && ln -s /.sb/bin /a/b/c\nVOLUME /a/b/c\n",
		} {
			dir := t.TempDir()
			write(t, dir, map[string]string{"own": "#!/bin/sh\nexit 9\n", "Dockerfile": "FROM " + testImage +
				"\nCOPY own /own\nRUN chmod 755 /own\n" + lines})
			sb := box(t, p, func(spec *core.Spec) { spec.Image, spec.Dockerfile, spec.Network.Mode = "", dir, core.NetworkAll })
			if out, _ := sh(t, p, sb.ID, "tr '\\0' ' ' < /proc/1/cmdline"); out != string(p.known[sb.ID].dir)+
				"/bin/sb-guest box " {
				t.Errorf("%s: the first process is %q", name, out)
			}
			end(t, p, sb.ID)
		}
	})
}

// Root inside can redirect a link in a volume's path, so that the volume would cover the helper at the next start.
func TestVolumeInTheHelpersPlace(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		c := e.raw(t)
		forgetBuilds(t, c)
		dir := t.TempDir()
		write(t, dir, map[string]string{"Dockerfile": "FROM " + testImage +
			"\nRUN mkdir /real && ln -s /real /link\nVOLUME /link/data\n"})
		sb := box(t, p, func(spec *core.Spec) { spec.Image, spec.Dockerfile, spec.Persist = "", dir, true })
		restart := func() error {
			stopByHand(t, c, sb.ID)
			_, err := p.Start(t.Context(), sb.ID)
			return err
		}
		if err := restart(); err != nil {
			t.Errorf("an image's own link stops it from starting: %v", err)
		}
		if out, code := sh(t, p, sb.ID, "ln -sfn /.sb-* /link"); code != 0 {
			t.Fatal(out)
		}
		wantKind(t, restart(), core.KindUnauthorized)
	})
}

func TestEngineSocketIsNotMounted(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		shared := readable(t)
		inside := filepath.Join(shared, "in")
		if err := os.Mkdir(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inside, "file"), []byte("host\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Dir(strings.TrimPrefix(e.host, "unix://"))
		p := e.open(t, nil)
		if err := os.Symlink(socket, filepath.Join(shared, "engine")); err != nil {
			t.Fatal(err)
		}
		for source, kind := range map[string]core.Kind{
			"/": core.KindUnauthorized, socket: core.KindUnauthorized, shared + "/engine": core.KindUnauthorized,
			"/no/such/directory": core.KindUsage,
		} {
			_, err := p.Launch(
				t.Context(),
				core.Spec{Name: core.NewName(), Image: testImage, Volumes: []core.Volume{{Source: source, Target: "/v"}}},
				core.Lease{}, nil,
			)
			wantKind(t, err, kind)
		}
		sb := box(t, p, func(spec *core.Spec) {
			spec.Volumes = []core.Volume{{Source: inside, Target: "/v", ReadOnly: true}}
		})
		if out, _ := sh(t, p, sb.ID, "cat /v/file; echo x > /v/file"); !strings.Contains(out, "host\n") ||
			!strings.Contains(out, "Read-only") {
			t.Errorf("the directory that is allowed: %q", out)
		}
	})
}
