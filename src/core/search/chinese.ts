import { stem } from './porter2.js';

/**
 * English words for Chinese words that are common in descriptions of tools, so that a need in Chinese finds a tool
 * described in English. The words are general vocabulary; each has one to three translations.
 */
const WORDS = `搜索 search|查询 query search|查找 find|获取 get|列表 list|创建 create|新建 create|生成 generate|删除 delete|更新 update|修改 edit
添加 add|发送 send|下载 download|上传 upload|读取 read|写入 write|保存 save|打开 open|计算 calculate|转换 convert|翻译 translate|分析 analyze
比较 compare|推荐 recommend|预订 book|购买 buy|支付 payment|订单 order|登录 login|用户 user|账户 account|密码 password|文件 file
文件夹 folder|目录 directory|文档 document|表格 table|图表 chart|图片 image|图像 image|视频 video|音频 audio|音乐 music|歌曲 song
网页 webpage|网站 website|链接 link url|内容 content|标题 title|摘要 summary|总结 summary|信息 information|资讯 news information|新闻 news
热搜 trending|热榜 trending|热门 trending popular|榜单 ranking|排行 ranking|趋势 trend|实时 realtime|最新 latest|数据 data|数据库 database
代码 code|仓库 repository|项目 project|工单 ticket|任务 task|日程 schedule|会议 meeting|提醒 reminder|邮件 email|消息 message|电话 phone
短信 sms|天气 weather|温度 temperature|地图 map|位置 location|地点 place|城市 city|路线 route|导航 navigation|距离 distance|交通 traffic
火车 train|车票 ticket|高铁 train|航班 flight|机票 flight ticket|酒店 hotel|餐厅 restaurant|菜谱 recipe|食材 ingredient|烹饪 cook
电影 movie|游戏 game|角色 character|小说 novel|图书 book|书籍 book|阅读 reading|论文 paper|学术 academic|科技 technology|数码 digital electronics
财经 finance|金融 finance|经济 economy|股票 stock|基金 fund|汇率 exchange rate|货币 currency|价格 price|市场 market|公司 company|企业 company
商品 product goods|购物 shopping|优惠 discount cheap|汽车 car|手机 phone|电脑 computer|体育 sports|娱乐 entertainment|社会 society|国际 international
历史 history|健康 health|医疗 medical|药品 drug|教育 education|法律 law|旅游 travel|时间 time|日期 date|历法 calendar|语言 language|人工智能 ai`;

const translations = new Map<string, readonly string[]>();
let longest = 0;
for (const entry of WORDS.split(/[|\n]/)) {
  const [word = '', ...english] = entry.trim().split(' ');
  translations.set(word, english.map(stem));
  longest = Math.max(longest, word.length);
}

/** The English terms of the known words in a text, each once. */
export function translatedTerms(text: string): string[] {
  const found = new Set<string>();
  for (let start = 0; start < text.length; start += 1) {
    for (let length = 2; length <= longest && start + length <= text.length; length += 1) {
      for (const term of translations.get(text.slice(start, start + length)) ?? []) found.add(term);
    }
  }
  return [...found];
}
