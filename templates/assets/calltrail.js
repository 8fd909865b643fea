// Tells an open page that there is something new. Nothing moves by itself, and only numbers come in.
'use strict';
(() => {
  const page = document.body;
  const news = document.getElementById('news');
  const live = document.getElementById('live');
  const liveText = document.getElementById('live-text');
  if (!news || !live || !liveText) return;

  const title = document.title;
  const show = (state, text) => {
    live.dataset.live = state;
    liveText.textContent = text;
  };
  const announce = (text, mark) => {
    if (news.textContent === text) return;
    news.href = location.pathname + location.search;
    news.textContent = text;
    news.hidden = false;
    document.title = mark + title;
  };

  if ('EventSource' in window) {
    const events = new EventSource(`/events?after=${Number(page.dataset.seq)}`);
    events.addEventListener('open', () => show('on', 'live'));
    events.addEventListener('error', () => {
      const gone = events.readyState === EventSource.CLOSED;
      show('off', gone ? 'not live: reload the page' : 'connection lost, trying again');
    });
    events.addEventListener('news', (event) => {
      const fresh = Number(event.data);
      const many = fresh >= 1000 ? '+' : '';
      if (fresh > 0) announce(`${fresh}${many} new or changed – show`, `(${fresh}${many}) `);
    });
    events.addEventListener('alarms', (event) => {
      if (Number(event.data) > Number(page.dataset.alarms)) {
        announce('Calltrail itself has a problem – show', '(!) ');
      }
    });
    window.addEventListener('pagehide', () => events.close());
    window.addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });
  }

  // The reader's own time, on hover, under the exact one.
  for (const time of document.querySelectorAll('time')) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = [time.title, at.toLocaleString() + ' your time'].filter(Boolean).join('\n');
  }

  // j and k walk the list (Enter opens) or turn to the next incident: never while typing.
  const links = [...document.querySelectorAll('#incidents a.title')];
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const step = { j: 1, k: -1 }[event.key];
    if (!step) return;
    const turn = document.querySelector(step > 0 ? '.turn a[rel=next]' : '.turn a[rel=prev]');
    const now = links.indexOf(document.activeElement);
    const next = links[now < 0 ? 0 : now + step];
    if (next) next.focus();
    else if (turn) turn.click();
  });
})();
