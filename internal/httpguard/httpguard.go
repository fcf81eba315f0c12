// Package httpguard refuses requests that a web page of another site makes a browser send. Any page can post to this
// machine. It can also resolve its own name to this machine's address, and read the answers (DNS rebinding). The package
// also runs servers until their context ends.
package httpguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Serve answers requests on l until ctx ends, with TLS if srv has a configuration for it. Then it waits up to grace for
// running requests. It closes l.
func Serve(ctx context.Context, srv *http.Server, l net.Listener, grace time.Duration) error {
	return ServeBy(ctx, srv, grace, func() error {
		if srv.TLSConfig != nil {
			return srv.ServeTLS(l, "", "")
		}
		return srv.Serve(l)
	})
}

// ServeBy is like Serve, but serve answers the requests, until srv is shut down.
func ServeBy(ctx context.Context, srv *http.Server, grace time.Duration, serve func() error) error {
	return Until(ctx, "http", http.ErrServerClosed, serve, func() error {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := srv.Shutdown(ending); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return srv.Close()
	})
}

// Until runs serve until ctx ends. Then it runs stop, which ends serve with the error closed.
func Until(ctx context.Context, protocol string, closed error, serve, stop func() error) error {
	served := make(chan error, 1)
	go func() { served <- serve() }()
	select {
	case err := <-served:
		return fmt.Errorf("%s server: %w", protocol, err)
	case <-ctx.Done():
	}
	err := stop()
	if ended := <-served; !errors.Is(ended, closed) {
		err = errors.Join(err, ended)
	}
	return err
}

// CheckAddress is nil for host:port. The error begins with the address; usual is the port that it suggests.
func CheckAddress(address string, usual int) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port; write one such as 127.0.0.1:%d", address, usual)
	}
	return nil
}

// IsLoopback reports whether only this machine can reach a host. The empty host is every address.
func IsLoopback(host string) bool {
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// IsOpen reports whether other machines can reach an address, host:port.
func IsOpen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !IsLoopback(host)
}

// Guard passes requests to next, but refuse answers two kinds: those by which a page of another site would change
// something, and, if listen is a loopback address, those for a host that is neither this machine nor one of hosts.
func Guard(listen string, hosts []string, next http.Handler, refuse func(w http.ResponseWriter, r *http.Request, why string)) http.Handler {
	address, _, _ := net.SplitHostPort(listen)
	local, cross := IsLoopback(address), http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		same := func(name string) bool { return strings.EqualFold(name, host) } // browsers send lower case, other clients any
		switch {
		case local && !IsLoopback(host) && !slices.ContainsFunc(hosts, same):
			refuse(w, r, fmt.Sprintf("host %.64q is refused, because this server listens on loopback only: ask for localhost, or add the host to server.hosts (of a telemetry listener: listeners.hosts)", host))
		case cross.Check(r) != nil:
			refuse(w, r, fmt.Sprintf("a web page of another site (origin %.64q) may not send this", r.Header.Get("Origin")))
		default:
			next.ServeHTTP(w, r)
		}
	})
}
