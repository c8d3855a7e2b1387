internal import Synchronization
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// A list of public suffixes that the first cookie needs, and that is not there yet: the engine's thread does not wait for it.
struct UnreadSuffixes {
  fileprivate let jar: CookieStorage
  fileprivate let threads: FileThreads
  fileprivate let loop: EventLoop

  /// Reads it elsewhere, then calls `completion` on the engine's thread; where it was read if the engine has been shut down meanwhile, as a task waits for it.
  func read(_ completion: @escaping @Sendable () -> Void) {
    let (jar, loop) = (jar, loop)
    threads.run { () throws(IOError) in
      jar.readSuffixes()
    } completion: { _ in
      if !loop.submit(completion) { completion() }
    }
  }
}

extension TaskRun {
  /// Nil: the list is at hand, nobody needs it, or this is another thread, which may wait.
  var unreadSuffixes: UnreadSuffixes? {
    guard let jar = session.configuration.cookieStorage, !jar.hasSuffixes,
      let loop = (session.transport as? EngineTransport)?.currentLoop,
      let threads = try? Engine.processSmallFiles.get()
    else { return nil }
    return UnreadSuffixes(jar: jar, threads: threads, loop: loop)
  }

  /// The first cookie has the list of public suffixes read, and the engine's thread does not wait for it: true if the head is dealt with when
  /// that is there.
  func readsSuffixes(before head: ResponseHead, of exchange: any TransportExchange) -> Bool {
    guard let suffixes = unreadSuffixes else { return false }
    guard let number = closeGate(for: exchange) else { return true }
    suffixes.read { [self] in
      decide(number) {
        keepCookies(head.fields, from: currentURL)
        received(head, exchange)
      }
    }
    return true
  }

  /// Every final head may set cookies, whatever its status, those of redirects and challenges included.
  func keepCookies(_ fields: FieldSection, from url: ParsedURL) {
    guard session.configuration.cookieStorage != nil else { return }
    // As it was sent: an interceptor or a delegate may have put it in the place of the task's own.
    keepCookies(fields, from: url, of: state.withLock { $0.chain?.base } ?? self.request)
  }

  func keepCookies(_ fields: FieldSection, from url: ParsedURL, of request: Request) {
    guard let jar = session.configuration.cookieStorage else { return }
    guard request.handlesCookies else { return }
    jar.receive(
      fields.bytes(.setCookie), from: CookieContext(url: url, mainDocument: request.mainDocument),
      policy: session.configuration.cookieAcceptPolicy)
  }
}

extension FieldSection {
  /// The bytes of every such field, as they came: what is no UTF-8 is for its reader to judge.
  func bytes(_ field: KnownField) -> [[UInt8]] {
    var values: [[UInt8]] = []
    var next = firstIndex(field)
    while let index = next {
      values.append([UInt8](valueBytes(at: index)))
      next = nextIndex(field, after: index)
    }
    return values
  }
}
