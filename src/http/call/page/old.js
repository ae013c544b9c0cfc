// Explains an empty page. A browser that is too old for the page's modules ignores them or stops at their syntax, so this is a classic
// script in the syntax of 2009. It has texts of its own, because texts.js is a module.
addEventListener('load', function () {
  var TEXTS = {
    ar: 'تعذّر بدء المكالمة. قد يكون هذا المتصفح قديمًا جدًا: حدّثه أو استخدم متصفحًا آخر، ثم أعد تحميل الصفحة.',
    de: 'Die Seite konnte nicht starten. Vielleicht ist dieser Browser zu alt: Aktualisieren Sie ihn oder verwenden Sie einen anderen, und laden Sie die Seite dann neu.',
    en: 'The call page could not start. This browser may be too old: update it or use another one, then reload the page.',
    es: 'La página no pudo iniciarse. Quizá este navegador sea demasiado antiguo: actualícelo o use otro y vuelva a cargar la página.',
    fr: 'La page n’a pas pu démarrer. Ce navigateur est peut-être trop ancien : mettez-le à jour ou utilisez-en un autre, puis rechargez la page.',
    pt: 'A página não conseguiu iniciar. Este navegador pode ser demasiado antigo: atualize-o ou use outro e recarregue a página.',
    sw: 'Ukurasa haukuweza kuanza. Huenda kivinjari hiki ni cha zamani mno: kisasishe au tumia kingine, kisha pakia upya ukurasa.'
  };
  if (document.body.getAttribute('data-started')) return;
  var language = (navigator.language || 'en').slice(0, 2);
  if (!TEXTS[language]) language = 'en';
  var message = document.getElementById('too-old');
  message.textContent = TEXTS[language];
  message.lang = language;
  message.dir = language === 'ar' ? 'rtl' : 'ltr';
  message.removeAttribute('hidden');
});
